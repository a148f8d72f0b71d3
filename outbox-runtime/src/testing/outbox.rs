//! An outbox that works only when a test tells it to.

use super::message::{ctx_with, message};
use crate::database::aging;
use crate::database::transaction::handler_options;
use crate::engine::{OutboxBuilder, Passes};
use crate::event::Event;
use crate::handler::{HandlerResult, OutboxMessage};
use crate::operate::dead_letter::{DeadLetterFilter, DeadLetters};
use crate::operate::stats::{self, FailingMessage, OutboxStats};
use crate::registry::{Mode, OutboxHandler};
use sea_orm::{DbErr, TransactionTrait};
use std::time::Duration;

/// An outbox that runs nothing by itself: a test says when messages are delivered and when time
/// passes. Everything else is as with [`start()`](OutboxBuilder::start): the same handlers, found
/// the same way, and the same statements on the same tables, on any database.
///
/// ```
/// use outbox_runtime::testing::{self, TestOutbox};
/// use outbox_runtime::{Outbox, Partitions};
/// # use outbox_runtime::{Ctx, HandlerResult, LeasedMessageHandler, OutboxMessage};
/// # use outbox_runtime::{NewMessage, Queue, enqueue};
/// # use std::time::Duration;
/// # struct Ship;
/// # #[async_trait::async_trait]
/// # impl LeasedMessageHandler for Ship {
/// #     async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
/// #         match message.attempts() {
/// #             0 => HandlerResult::retry("the warehouse is closed"),
/// #             _ => HandlerResult::Success,
/// #         }
/// #     }
/// # }
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let db = testing::database().await;
/// let orders = Outbox::builder(db.clone()).queue("orders", Partitions::of(4));
/// let outbox = TestOutbox::of(orders.leased(Ship)).await;
/// # const ORDERS: Queue = Queue::of("orders", Partitions::of(4));
/// # enqueue(&db, &ORDERS, NewMessage::new("order.created", 7, "{}")).await?;
///
/// let drained = outbox.drain().await; // the warehouse is closed
/// assert_eq!(drained.failing.len(), 1);
/// outbox.advance(Duration::from_secs(60)).await; // no sleep
/// assert_eq!(outbox.drain().await.passed, 1);
/// # Ok(())
/// # }
/// ```
pub struct TestOutbox {
    passes: Passes,
}

/// The result of a drain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Drained {
    /// How many messages consumers are done with, each consumer counted for itself. A message
    /// counts if it was handled, if the consumer passed over its type, or if it became a dead
    /// letter.
    pub passed: u64,
    /// Messages that failed and will be tried again, soonest first.
    pub failing: Vec<FailingMessage>,
    /// How many messages became dead letters.
    pub dead_letters: u64,
}

impl TestOutbox {
    /// Checks and registers everything as [`start()`](OutboxBuilder::start) does.
    ///
    /// # Panics
    /// With every problem that `start()` would return as an error.
    pub async fn of(builder: OutboxBuilder) -> Self {
        match builder.into_passes().await {
            Ok(passes) => Self { passes },
            Err(error) => panic!("{error}"),
        }
    }

    /// Delivers everything that is due, one partition after the other, and also what handlers
    /// enqueue meanwhile. When it returns, everything is acknowledged in the database. A message
    /// that fails stays for later: see [`advance`](Self::advance).
    ///
    /// # Panics
    /// If the database fails, or if handlers enqueue new messages without end.
    pub async fn drain(&self) -> Drained {
        let drained = async {
            let before = self.look().await?;
            self.passes.run().await?;
            let after = self.look().await?;
            Ok::<_, DbErr>(Drained {
                passed: after.passed.saturating_sub(before.passed),
                failing: after.failing,
                dead_letters: after.dead_letters.saturating_sub(before.dead_letters),
            })
        };
        let drained = drained.await;
        drained.unwrap_or_else(|error| panic!("the outbox could not be drained: {error}"))
    }

    /// Does what is due and nothing else, for tests of what that costs.
    ///
    /// # Panics
    /// As [`drain`](Self::drain).
    #[doc(hidden)]
    pub async fn pass(&self) {
        let passed = self.passes.pass().await;
        passed.unwrap_or_else(|error| panic!("what is due could not be done: {error}"));
    }

    /// Deletes what every consumer has passed, for tests of what that costs.
    ///
    /// # Panics
    /// If the database fails.
    #[doc(hidden)]
    pub async fn vacuum(&self) -> i64 {
        let vacuumed = self.passes.vacuum().await;
        vacuumed.unwrap_or_else(|error| panic!("vacuum failed: {error}"))
    }

    /// Lets time pass for the whole outbox, at once: retries become due, leases end, messages grow
    /// old. The database's clock stays as it is. Instead every time in the outbox's tables is moved
    /// into the past.
    ///
    /// # Panics
    /// If the database fails.
    pub async fn advance(&self, by: Duration) {
        let aged = aging::age(self.passes.db(), by).await;
        aged.unwrap_or_else(|error| panic!("time could not pass: {error}"));
    }

    /// Hands an event to a handler, named by its function (`deliver::<ship>(event)`), and returns
    /// the result. Nothing is enqueued, and nothing is retried or made a dead letter. A
    /// transactional handler gets a transaction, which is committed if the handler succeeds.
    ///
    /// # Panics
    /// If the handler panics, if it is a handler of another event, or if the database fails.
    pub async fn deliver<H: OutboxHandler>(&self, event: impl Event) -> HandlerResult {
        self.deliver_message::<H>(&message(event, "")).await
    }

    /// Hands a message to a handler, as [`deliver`](Self::deliver) does. Make a message with a key
    /// and headers with [`message_with`](super::message_with).
    ///
    /// # Panics
    /// As [`deliver`](Self::deliver).
    pub async fn deliver_message<H: OutboxHandler>(
        &self,
        message: &OutboxMessage,
    ) -> HandlerResult {
        let registration = H::REGISTRATION;
        assert!(
            registration
                .event_types()
                .any(|name| name == message.event_type()),
            "`{}` handles `{}`, not `{}`",
            registration.name,
            registration.event(),
            message.event_type()
        );
        let ctx = ctx_with(message, self.passes.states().clone());
        let handler = registration.handler();
        if registration.mode == Mode::Leased {
            return handler.call_with_one(None, message.clone(), &ctx).await;
        }
        let delivered = async {
            let db = self.passes.db();
            let options = handler_options(db)?;
            let tx = db.begin_with_options(options).await?;
            let call = handler.call_with_one(Some(&tx), message.clone(), &ctx);
            let result = call.await;
            match result {
                HandlerResult::Success => tx.commit().await?,
                _ => tx.rollback().await?,
            }
            Ok::<_, DbErr>(result)
        };
        let delivered = delivered.await;
        delivered.unwrap_or_else(|error| panic!("the transaction of the handler: {error}"))
    }

    async fn look(&self) -> Result<Look, DbErr> {
        let db = self.passes.db();
        let stats = stats::read(db).await?;
        let letters = DeadLetters::new(db.clone());
        Ok(Look {
            passed: passed(&stats),
            failing: failing(stats),
            dead_letters: letters.count(&DeadLetterFilter::new()).await?,
        })
    }
}

/// How far all consumers are.
struct Look {
    passed: u64,
    failing: Vec<FailingMessage>,
    dead_letters: u64,
}

fn passed(stats: &OutboxStats) -> u64 {
    let consumers = stats.queues.iter().flat_map(|queue| &queue.consumers);
    let partitions = consumers.flat_map(|consumer| &consumer.partitions);
    partitions
        .map(|partition| partition.processed.max(0).unsigned_abs())
        .sum()
}

fn failing(stats: OutboxStats) -> Vec<FailingMessage> {
    let consumers = stats.queues.into_iter().flat_map(|queue| queue.consumers);
    let mut failing: Vec<_> = consumers.flat_map(|consumer| consumer.failing).collect();
    failing.sort_by_key(|message| message.due_in);
    failing
}
