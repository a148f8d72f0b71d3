//! Describes an outbox, and checks the description as a whole.

use super::discovery::Selection;
use super::problem::ConfigError;
use super::queue_builder::QueueBuilder;
use crate::config::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};
use crate::handler::states::States;
use crate::handler::{AnyHandler, DeadLetterHook, DeadLetterNotice};
use crate::queue::name::check_name;
use crate::queue::{Partitions, Queue};
use crate::registry::Mode;
use sea_orm::DatabaseConnection;
use std::collections::BTreeSet;
use std::time::Duration;

/// Describes an outbox; made by [`Outbox::builder`](crate::Outbox::builder).
///
/// ```
/// use outbox_runtime::{Outbox, OutboxProfile, Partitions};
/// # use outbox_runtime::{Ctx, HandlerResult, LeasedMessageHandler, OutboxMessage};
/// # struct Ship;
/// # #[async_trait::async_trait]
/// # impl LeasedMessageHandler for Ship {
/// #     async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult { HandlerResult::Success }
/// # }
/// # async fn start(db: sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
/// let running = Outbox::builder(db)
///     .profile(OutboxProfile::low_latency())
///     .queue("orders", Partitions::of(4))
///     .leased(Ship)
///     .start()
///     .await?;
/// // ...
/// running.stop().await;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct OutboxBuilder {
    pub(super) db: DatabaseConnection,
    pub(super) profile: OutboxProfile,
    pub(super) retention: Duration,
    pub(super) dead_letter_retention: Option<Duration>,
    pub(super) on_dead_letter: DeadLetterHook,
    pub(super) asynchronous_commit: bool,
    pub(super) notify: bool,
    pub(super) handlers_per_queue: u32,
    pub(super) transactions_per_queue: u32,
    pub(super) states: States,
    pub(super) consumers: Vec<ConsumerSpec>,
    pub(super) selection: Selection,
    pub(super) problems: Vec<ConfigError>,
}

/// How many messages ahead of its cursor a consumer with many keys at a time knows, by default.
pub(super) const WINDOW: u32 = 1_000;

/// A consumer of the builder.
pub(super) struct ConsumerSpec {
    pub(super) queue: Queue,
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) lease: LeaseConfig,
    pub(super) batch: Option<u32>,
    /// How many keys of a partition are worked on at a time.
    pub(super) concurrency: u32,
    /// How many messages ahead of the cursor are known, if many keys are worked on at a time.
    pub(super) window: u32,
    pub(super) from_earliest: bool,
    pub(super) routes: Vec<RouteSpec>,
}

/// A handler of a consumer.
pub(super) struct RouteSpec {
    /// The event types it takes; `None` for all.
    pub(super) event_types: Option<BTreeSet<String>>,
    pub(super) handler: AnyHandler,
    pub(super) retry: RetryPolicy,
    pub(super) batch: Option<u32>,
    pub(super) timeout: Option<Duration>,
    /// The name of its function, if it is made of one.
    pub(super) name: Option<&'static str>,
}

impl OutboxBuilder {
    pub(crate) fn new(db: DatabaseConnection) -> Self {
        Self {
            db,
            profile: OutboxProfile::default(),
            retention: Duration::ZERO,
            dead_letter_retention: None,
            on_dead_letter: DeadLetterHook::default(),
            asynchronous_commit: true,
            notify: false,
            handlers_per_queue: 64,
            transactions_per_queue: 4,
            states: States::default(),
            consumers: Vec::new(),
            selection: Selection::default(),
            problems: Vec::new(),
        }
    }

    /// Sets the tuning of all workers.
    pub fn profile(mut self, profile: OutboxProfile) -> Self {
        self.profile = profile;
        self
    }

    /// Sets the tuning of the sequencers.
    pub fn sequencer_tuning(mut self, tuning: WorkerTuning) -> Self {
        self.profile.sequencer = tuning;
        self
    }

    /// Sets the tuning of the processors.
    pub fn processor_tuning(mut self, tuning: WorkerTuning) -> Self {
        self.profile.processor = tuning;
        self
    }

    /// Sets the tuning of vacuum.
    pub fn vacuum_tuning(mut self, tuning: WorkerTuning) -> Self {
        self.profile.vacuum = tuning;
        self
    }

    /// Sets the tuning of the reconciler.
    pub fn reconciler_tuning(mut self, tuning: WorkerTuning) -> Self {
        self.profile.reconciler = tuning;
        self
    }

    /// Gives handlers a value. A handler asks for it by its type: with [`State`](crate::State), or
    /// with [`Ctx::state`](crate::Ctx::state).
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        if self.states.insert(value) {
            let problem = format!("two states of type `{}`", std::any::type_name::<T>());
            self.problems.push(ConfigError::Invalid(problem));
        }
        self
    }

    /// Keeps delivered messages this long after they were enqueued.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Deletes dead letters in the background that were resolved or discarded this long ago.
    /// Without this they are kept for ever, or until [`cleanup`](crate::DeadLetters::cleanup).
    /// Pending dead letters are always kept.
    pub fn dead_letter_retention(mut self, retention: Duration) -> Self {
        self.dead_letter_retention = Some(retention);
        self
    }

    /// Calls `hook` when a message of this process became a dead letter, after that is committed.
    /// Use it for alerts. A second hook replaces the first.
    ///
    /// The partition waits until the hook returns, so the hook should be quick: send to a channel,
    /// or spawn a task for anything slow. A panic in it is logged. It is called at most once for a
    /// dead letter. If the process dies or loses its connection at that moment, it is not called at
    /// all: the database has the truth, in [`dead_letters`](crate::Outbox::dead_letters).
    pub fn on_dead_letter(
        mut self,
        hook: impl Fn(&DeadLetterNotice) + Send + Sync + 'static,
    ) -> Self {
        self.on_dead_letter = DeadLetterHook::new(hook);
        self
    }

    /// Makes the outbox's own bookkeeping wait for the disk on PostgreSQL. By default it does not
    /// wait. If the server crashes and loses such a commit, a message is delivered again, which
    /// leased handlers must allow anyway. Commits that carry a user's writes always wait.
    pub fn synchronous_bookkeeping(mut self) -> Self {
        self.asynchronous_commit = false;
        self
    }

    /// Tells other processes with NOTIFY what is enqueued in this one, and listens for what is
    /// enqueued in others. It works on PostgreSQL and does nothing elsewhere. Without it, a message
    /// from another process is found within the reconciler's interval. It takes one connection. A
    /// process that only produces needs a builder without queues and this.
    pub fn notify(mut self) -> Self {
        self.notify = true;
        self
    }

    /// Sets how many leased handlers of one queue may run at once in this process, all consumers
    /// together; 64 by default. Of a consumer, a partition runs one handler, or as many as the
    /// consumer's `concurrency` says.
    pub fn handlers_per_queue(mut self, handlers: u32) -> Self {
        self.handlers_per_queue = handlers;
        self
    }

    /// Sets how many transactions of handlers of one queue may be open at once in this process, all
    /// consumers together; 4 by default. Each transaction takes a connection.
    pub fn transactions_per_queue(mut self, transactions: u32) -> Self {
        self.transactions_per_queue = transactions;
        self
    }

    /// Adds a consumer of a queue. The returned builder names the consumer and takes its handler.
    pub fn queue(mut self, name: impl Into<String>, partitions: Partitions) -> QueueBuilder {
        let name = name.into();
        let queue = match Queue::try_of(name, partitions) {
            Ok(queue) => Some(queue),
            Err(error) => {
                self.problems.push(ConfigError::Invalid(error.to_string()));
                None
            }
        };
        QueueBuilder::new(self, queue)
    }

    pub(super) fn check(&mut self) {
        let mut problems = Vec::new();
        let mut add = |place: String, found: Vec<String>| {
            problems.extend(
                found
                    .into_iter()
                    .map(|problem| ConfigError::Invalid(format!("{place}: {problem}"))),
            );
        };
        let profile = &self.profile;
        for (worker, tuning) in [
            ("sequencer", &profile.sequencer),
            ("processor", &profile.processor),
            ("vacuum", &profile.vacuum),
            ("reconciler", &profile.reconciler),
        ] {
            add(format!("tuning of the {worker}"), tuning.problems());
        }
        for (bound, value) in [
            ("handlers_per_queue", self.handlers_per_queue),
            ("transactions_per_queue", self.transactions_per_queue),
        ] {
            if value == 0 {
                let nothing = "it is 0, so nothing would run; use at least 1";
                add(bound.into(), vec![nothing.into()]);
            }
        }
        for (index, spec) in self.consumers.iter().enumerate() {
            let place = format!("consumer `{}` of queue `{}`", spec.name, spec.queue.name());
            add(place.clone(), spec.lease.problems());
            for route in &spec.routes {
                add(place.clone(), route.retry.problems());
            }
            if spec.batch == Some(0) {
                add(place.clone(), vec!["batch is 0, use at least 1".into()]);
            }
            add(place.clone(), timeout_problems(spec));
            add(place.clone(), concurrency_problems(spec));
            if let Err(error) = check_name("a consumer", &spec.name) {
                add(place.clone(), vec![error.to_string()]);
            }
            let same = |other: &&ConsumerSpec| {
                other.queue.name() == spec.queue.name() && other.name == spec.name
            };
            if self.consumers[..index].iter().any(|other| same(&other)) {
                let twice = "it has two handlers; give one of them another consumer name";
                add(place, vec![twice.into()]);
            }
        }
        self.problems.append(&mut problems);
    }
}

/// Many keys at a time are possible only where messages are handled one by one and outside of
/// transactions.
fn concurrency_problems(spec: &ConsumerSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if spec.concurrency == 0 {
        problems.push("concurrency is 0, use at least 1".into());
    }
    if spec.window == 0 {
        problems.push("the window is 0, use at least 1".into());
    }
    let single = |route: &RouteSpec| matches!(route.handler, AnyHandler::LeasedEach(_));
    if spec.concurrency > 1 && !spec.routes.iter().all(single) {
        problems.push(
            "concurrency means nothing for transactional handlers and for handlers of batches; \
             give those another consumer"
                .into(),
        );
    }
    problems
}

/// A timeout that is longer than the lease allows would never come, so it is a mistake.
fn timeout_problems(spec: &ConsumerSpec) -> Vec<String> {
    let most = spec.lease.duration.saturating_sub(spec.lease.headroom);
    let timeouts = spec.routes.iter().filter_map(|route| route.timeout);
    timeouts
        .filter(|timeout| timeout.is_zero() || *timeout > most)
        .map(|timeout| {
            format!(
                "the timeout ({timeout:?}) must be above 0 and at most the lease less its headroom \
                 ({most:?})"
            )
        })
        .collect()
}
