//! Leased and transactional consumers that are late, fail, panic, reject, and
//! outlive their leases.

use crate::journal::{Delivery, Entry, Journal, now};
use crate::process::{Ending, POOL, statement};
use crate::scenario::{self, CONSUMERS, Fate, LEASE, RETRY};
use outbox_runtime::{
    Ctx, HandlerResult, LeasedMessageHandler, Mode, Outbox, OutboxBuilder, OutboxMessage,
    OutboxProfile, TransactionalMessageHandler,
};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, TransactionTrait,
};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long the pool is full when the nemesis says so.
const FULL_POOL: Duration = Duration::from_secs(2);

pub(crate) async fn run(
    db: &DatabaseConnection,
    journal: &Journal,
    mut ending: Ending,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut outbox = outbox(db, Some(journal));
    // Some processes listen to others, some only poll.
    if db.get_database_backend() == DbBackend::Postgres && fastrand::bool() {
        outbox = outbox.notify();
    }
    let running = outbox.start().await?;
    let mut fill = signal(SignalKind::user_defined1())?;
    loop {
        tokio::select! {
            _ = fill.recv() => fill_pool(db),
            _ = ending.changed() => break,
        }
    }
    running.stop().await;
    Ok(())
}

/// All consumers; without a journal only to register them.
pub(crate) fn outbox(db: &DatabaseConnection, journal: Option<&Journal>) -> OutboxBuilder {
    let mut builder = Outbox::builder(db.clone()).profile(OutboxProfile::low_latency());
    for consumer in &CONSUMERS {
        let queue = builder
            .queue(consumer.queue.name(), consumer.queue.partitions())
            .consumer(consumer.name)
            .lease(LEASE)
            .retry(RETRY);
        builder = match consumer.mode {
            Mode::Leased => queue.concurrency(consumer.concurrency).leased(Deliver {
                consumer: consumer.name,
                journal: journal.cloned(),
            }),
            Mode::Transactional => queue.transactional(Book {
                consumer: consumer.name,
            }),
        };
    }
    builder
}

/// Leased: what it is given goes to the journal.
struct Deliver {
    consumer: &'static str,
    journal: Option<Journal>,
}

impl Deliver {
    fn write(&self, message: &OutboxMessage, entry: fn(Delivery) -> Entry) {
        let Some(journal) = &self.journal else { return };
        let delivery = Delivery {
            at: now(),
            consumer: self.consumer.to_owned(),
            mark: mark(message),
            message_id: message.id().get(),
        };
        journal.write(&entry(delivery)).expect("the journal");
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Deliver {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.write(message, Entry::Begun);
        let result = behave(self.consumer, message).await;
        if result == HandlerResult::Success {
            self.write(message, Entry::Done);
        }
        result
    }
}

/// Transactional: what it is given goes to the ledger, with the acknowledgement.
struct Book {
    consumer: &'static str,
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Book {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        let insert = "INSERT INTO chaos_ledger (consumer, mark, message_id) VALUES (?, ?, ?)";
        let (mark, id) = (mark(message), message.id().get());
        let values = [self.consumer.into(), mark.into(), id.into()];
        if let Err(error) = tx.execute_raw(statement(tx, insert, values)).await {
            return HandlerResult::retry(error);
        }
        behave(self.consumer, message).await
    }
}

fn mark(message: &OutboxMessage) -> i64 {
    scenario::mark_of(message.payload()).expect("a payload of ours")
}

/// What a handler does beside its work.
async fn behave(consumer: &str, message: &OutboxMessage) -> HandlerResult {
    match scenario::fate(consumer, mark(message)) {
        Fate::Fine => {}
        Fate::Rejected => return HandlerResult::reject("this one is never wanted"),
        Fate::Hopeless => return HandlerResult::retry("this one never works"),
    }
    match fastrand::u32(0..2_000) {
        0 => {
            // Longer than its lease, where it can be dropped.
            tokio::time::sleep(LEASE.duration * 2).await;
        }
        1 => {
            // Longer than its lease, where it cannot.
            let long = LEASE.duration + Duration::from_millis(300);
            tokio::task::block_in_place(|| std::thread::sleep(long));
        }
        2..12 => panic!("a handler panics"),
        12..40 => return HandlerResult::retry("a passing trouble"),
        40..100 => tokio::time::sleep(Duration::from_millis(fastrand::u64(5..60))).await,
        100..600 => tokio::time::sleep(Duration::from_millis(1)).await,
        _ => {}
    }
    HandlerResult::Success
}

/// Takes every connection of the pool, as a busy application does.
fn fill_pool(db: &DatabaseConnection) {
    for _ in 0..POOL {
        let db = db.clone();
        tokio::spawn(async move {
            let taken = db.begin().await;
            tokio::time::sleep(FULL_POOL).await;
            drop(taken);
        });
    }
}
