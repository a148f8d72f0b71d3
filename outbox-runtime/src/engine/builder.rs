//! Describing an outbox, and checking the description as a whole.

use super::problem::ConfigError;
use super::queue_builder::QueueBuilder;
use crate::name::check_name;
use crate::partitions::Partitions;
use crate::queue::Queue;
use crate::registry::events;
use crate::stage::processor::Handler;
use crate::state::States;
use crate::tuning::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};
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
    pub(super) asynchronous: bool,
    pub(super) notify: bool,
    pub(super) states: States,
    pub(super) consumers: Vec<ConsumerSpec>,
    pub(super) problems: Vec<ConfigError>,
}

pub(super) struct ConsumerSpec {
    pub(super) queue: Queue,
    pub(super) name: String,
    pub(super) handler: Handler,
    pub(super) lease: LeaseConfig,
    pub(super) retry: RetryPolicy,
    pub(super) batch: Option<u32>,
    pub(super) from_earliest: bool,
    pub(super) event_types: Option<BTreeSet<String>>,
}

impl OutboxBuilder {
    pub(crate) fn new(db: DatabaseConnection) -> Self {
        Self {
            db,
            profile: OutboxProfile::default(),
            retention: Duration::ZERO,
            asynchronous: true,
            notify: false,
            states: States::default(),
            consumers: Vec::new(),
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

    /// Gives handlers a value, found by its type with [`Ctx::state`](crate::Ctx::state).
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

    /// Makes the outbox's own bookkeeping wait for the disk on PostgreSQL. By
    /// default it does not: losing such a commit in a crash of the server means
    /// that a message is delivered again, which leased handlers must allow anyway.
    /// Commits that carry a user's writes always wait.
    pub fn synchronous_bookkeeping(mut self) -> Self {
        self.asynchronous = false;
        self
    }

    /// Tells other processes with NOTIFY what is enqueued in this one, and listens
    /// for what is enqueued in others, on PostgreSQL; elsewhere it does nothing.
    /// Without it a message from another process is found within the
    /// reconciler's interval. It takes one connection. A process that only
    /// produces starts just this: a builder without queues.
    pub fn notify(mut self) -> Self {
        self.notify = true;
        self
    }

    /// Adds a consumer of a queue: say which, then give its handler.
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
        for (index, spec) in self.consumers.iter().enumerate() {
            let place = format!("consumer `{}` of queue `{}`", spec.name, spec.queue.name());
            add(place.clone(), spec.lease.problems());
            add(place.clone(), spec.retry.problems());
            if spec.batch == Some(0) {
                add(place.clone(), vec!["batch is 0, use at least 1".into()]);
            }
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
        for (queue, disagreement) in disagreements(&self.declarations()) {
            add(format!("queue `{queue}`"), vec![disagreement]);
        }
        self.problems.append(&mut problems);
    }

    /// Every queue that is named, with the place: by events linked into this binary
    /// and by consumers.
    fn declarations(&self) -> Vec<(Queue, String)> {
        let events = events().map(|event| {
            let place = format!("{} ({}:{})", event.rust_type, event.file, event.line);
            (event.queue.clone(), place)
        });
        let consumers = self.consumers.iter().map(|spec| {
            let place = format!("consumer `{}` of the builder", spec.name);
            (spec.queue.clone(), place)
        });
        events.chain(consumers).collect()
    }
}

/// Queues that are declared with different numbers of partitions, and where.
fn disagreements(declarations: &[(Queue, String)]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (index, (queue, place)) in declarations.iter().enumerate() {
        let first = declarations[..index]
            .iter()
            .find(|(other, _)| other.name() == queue.name());
        if let Some((other, elsewhere)) = first
            && other.partitions() != queue.partitions()
        {
            let (a, b) = (other.partitions(), queue.partitions());
            let text = format!("{a} partitions by {elsewhere}, {b} by {place}");
            found.push((queue.name().to_owned(), text));
        }
    }
    found
}
