//! Describing an outbox, checking the description as a whole, starting it.

use super::dispatch::Dispatcher;
use super::handle::{Outbox, OutboxHandle};
use super::notify;
use super::problem::{ConfigError, StartError};
use super::sqlite::sqlite_advice;
use super::supervisor::{QueueRuntime, Shared, run_reconciler, run_sequencer, run_vacuum};
use super::watch::run_watch;
use crate::handler::{
    LeasedHandler, LeasedMessageHandler, TransactionalHandler, TransactionalMessageHandler,
};
use crate::name::check_name;
use crate::partitions::Partitions;
use crate::queue::Queue;
use crate::registry::events;
use crate::stage::guard::Stop;
use crate::stage::processor::{Consumer, Handler};
use crate::state::States;
use crate::store::registration::{self, NewConsumer};
use crate::tuning::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};
use crate::wake;
use sea_orm::{DatabaseConnection, DbErr};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Connections our own short statements may use at once, in the whole process.
const STATEMENT_CONNECTIONS: usize = 4;
/// Transactions of handlers that may be open at once, per queue.
const TRANSACTIONS_PER_QUEUE: usize = 4;

/// Describes an outbox; made by [`Outbox::builder`].
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
    db: DatabaseConnection,
    profile: OutboxProfile,
    retention: Duration,
    asynchronous: bool,
    notify: bool,
    states: States,
    consumers: Vec<ConsumerSpec>,
    problems: Vec<ConfigError>,
}

pub(super) struct ConsumerSpec {
    pub(super) queue: Queue,
    pub(super) name: String,
    pub(super) handler: Handler,
    lease: LeaseConfig,
    retry: RetryPolicy,
    batch: Option<u32>,
    from_earliest: bool,
    event_types: Option<BTreeSet<String>>,
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
        QueueBuilder {
            builder: self,
            queue,
            consumer: "default".to_owned(),
            lease: LeaseConfig::default(),
            retry: RetryPolicy::default(),
            batch: None,
            from_earliest: false,
            event_types: None,
        }
    }

    /// Checks everything, makes queues and consumers known to the database, and
    /// starts to deliver.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn start(mut self) -> Result<OutboxHandle, StartError> {
        self.check();
        if !self.problems.is_empty() {
            return Err(StartError::new(self.problems));
        }
        self.register_all().await?;
        for advice in sqlite_advice(&self.db).await {
            tracing::warn!("{advice}");
        }
        Ok(self.spawn())
    }

    /// Makes consumers and their queues, and the queues of all events linked into
    /// this binary, known to the database without delivering anything. Do it before producers are deployed: a consumer gets what is
    /// committed after it was registered, the first of a queue gets everything.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn register(mut self) -> Result<(), StartError> {
        self.check();
        if !self.problems.is_empty() {
            return Err(StartError::new(self.problems));
        }
        self.register_all().await?;
        // Queues that this binary only produces to, too.
        let mut problems = Vec::new();
        for event in events() {
            let registered = retrying(|| registration::queue(&self.db, &event.queue)).await?;
            if let Err(conflict) = registered {
                problems.push(ConfigError::from_conflict(conflict, &event.queue));
            }
        }
        StartError::unless_empty(problems)
    }

    fn check(&mut self) {
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

    async fn register_all(&self) -> Result<(), StartError> {
        if let Err(error) = outbox_migrations::check(&self.db).await {
            return Err(StartError::new(vec![ConfigError::Schema(error)]));
        }
        let mut problems = Vec::new();
        let mut queues: Vec<&Queue> = Vec::new();
        for spec in &self.consumers {
            if !queues.contains(&&spec.queue) {
                queues.push(&spec.queue);
                let registered = retrying(|| registration::queue(&self.db, &spec.queue)).await?;
                if let Err(conflict) = registered {
                    problems.push(ConfigError::from_conflict(conflict, &spec.queue));
                    continue;
                }
            }
            let types = registration::registered_types(spec.event_types.as_ref());
            let consumer = NewConsumer {
                name: &spec.name,
                mode: spec.handler.mode(),
                event_types: &types,
                from_earliest: spec.from_earliest,
            };
            let registered =
                retrying(|| registration::consumer(&self.db, &spec.queue, &consumer)).await?;
            if let Err(conflict) = registered {
                problems.push(ConfigError::from_consumer_conflict(conflict, spec));
            }
        }
        StartError::unless_empty(problems)
    }

    fn spawn(self) -> OutboxHandle {
        let stop = Stop::default();
        let tasks = TaskTracker::new();
        let statements = Arc::new(Semaphore::new(STATEMENT_CONNECTIONS));
        let progress = Arc::default();
        let owner: Arc<str> = format!("{}-{}", std::process::id(), Uuid::new_v4().simple()).into();
        let mut queues: Vec<QueueRuntime> = Vec::new();
        let known: Vec<(String, String)> = known_types(&self.consumers);
        for spec in self.consumers {
            let running = queues.iter().position(|q| q.queue == spec.queue);
            let index = running.unwrap_or_else(|| {
                let signal = Arc::default();
                wake::register(spec.queue.id(), &signal);
                queues.push(QueueRuntime {
                    queue: spec.queue.clone(),
                    signal,
                    paused: Arc::new(AtomicBool::new(false)),
                    transactions: Arc::new(Semaphore::new(TRANSACTIONS_PER_QUEUE)),
                    dispatchers: Vec::new(),
                });
                queues.len() - 1
            });
            let runtime = &mut queues[index];
            let mut tuning = self.profile.processor.clone();
            tuning.batch_size = spec.batch.unwrap_or(tuning.batch_size);
            let consumer = Consumer {
                db: self.db.clone(),
                queue: spec.queue.name().into(),
                queue_id: spec.queue.id(),
                name: spec.name,
                owner: owner.clone(),
                handler: spec.handler,
                known_types: known
                    .iter()
                    .filter(|(queue, _)| queue == spec.queue.name())
                    .map(|(_, event_type)| event_type.clone())
                    .collect(),
                event_types: spec.event_types,
                states: self.states.clone(),
                tuning,
                lease: spec.lease,
                retry: spec.retry,
                asynchronous: self.asynchronous,
                stop: stop.clone(),
                paused: runtime.paused.clone(),
                statements: statements.clone(),
            };
            tracing::info!(
                queue = spec.queue.name(),
                partitions = spec.queue.partitions().count(),
                consumer = consumer.name,
                mode = consumer.handler.mode(),
                "outbox starts to deliver"
            );
            runtime.dispatchers.push(Dispatcher::new(
                consumer,
                spec.queue.partitions().count(),
                runtime.transactions.clone(),
                tasks.clone(),
                Arc::clone(&progress),
            ));
        }
        let shared = Arc::new(Shared {
            db: self.db,
            profile: self.profile,
            retention: self.retention,
            asynchronous: self.asynchronous,
            stop,
            statements,
            progress,
            queues,
        });
        for index in 0..shared.queues.len() {
            tasks.spawn(run_sequencer(shared.clone(), index));
        }
        if !shared.queues.is_empty() {
            tasks.spawn(run_reconciler(shared.clone()));
            tasks.spawn(run_vacuum(shared.clone()));
            tasks.spawn(run_watch(shared.clone()));
        }
        if self.notify {
            notify::spawn(&shared, &tasks);
        }
        OutboxHandle::new(Outbox::new(shared), tasks)
    }
}

/// Queue and event type of everything this binary knows: events linked into it
/// and types that consumers here take.
fn known_types(consumers: &[ConsumerSpec]) -> Vec<(String, String)> {
    let events = events().flat_map(|event| {
        let names = event.aliases.iter().copied().chain([event.name]);
        names.map(|name| (event.queue.name().to_owned(), name.to_owned()))
    });
    let taken = consumers.iter().flat_map(|spec| {
        let types = spec.event_types.iter().flatten();
        types.map(|name| (spec.queue.name().to_owned(), name.clone()))
    });
    events.chain(taken).collect()
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

/// Races between processes that start at once are run again.
async fn retrying<T, F: Future<Output = Result<T, DbErr>>>(
    mut work: impl FnMut() -> F,
) -> Result<T, StartError> {
    let mut tries = 0;
    loop {
        match work().await {
            Err(error)
                if tries < 20
                    && crate::dialect::classify(&error) == crate::dialect::ErrorClass::Race =>
            {
                tries += 1;
                let pause = crate::tuning::backoff(
                    Duration::from_millis(5),
                    Duration::from_millis(200),
                    tries,
                    true,
                );
                tokio::time::sleep(pause).await;
            }
            other => {
                return other.map_err(|error| StartError::new(vec![ConfigError::Database(error)]));
            }
        }
    }
}

/// A consumer of a queue in the making; the handler completes it.
#[must_use = "give it a handler"]
pub struct QueueBuilder {
    builder: OutboxBuilder,
    queue: Option<Queue>,
    consumer: String,
    lease: LeaseConfig,
    retry: RetryPolicy,
    batch: Option<u32>,
    from_earliest: bool,
    event_types: Option<BTreeSet<String>>,
}

impl QueueBuilder {
    /// Names the consumer; without, it is `default`. Each consumer has its own
    /// progress, failures and dead letters.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = name.into();
        self
    }

    /// Sets its lease.
    pub fn lease(mut self, lease: LeaseConfig) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how often and when a message that failed is tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how many messages it takes at once, instead of the profile's number.
    pub fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    /// Starts a consumer that joins a queue later at the oldest message that is
    /// still there, instead of at the next one.
    pub fn from_earliest(mut self) -> Self {
        self.from_earliest = true;
        self
    }

    /// Says which event types the handler takes; without, it takes all. Types that
    /// no version of this consumer ever took are passed over if the program knows
    /// them; others are left to processes that take them.
    pub fn event_types<I, T>(mut self, event_types: I) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        self.event_types = Some(event_types.into_iter().map(Into::into).collect());
        self
    }

    /// Delivers at least once, one message at a time, outside any transaction.
    pub fn leased(self, handler: impl LeasedMessageHandler) -> OutboxBuilder {
        self.handler(Handler::LeasedEach(Arc::new(handler)))
    }

    /// Delivers at least once, in batches, outside any transaction.
    pub fn leased_batch(self, handler: impl LeasedHandler) -> OutboxBuilder {
        self.handler(Handler::LeasedBatch(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, one message at a time.
    pub fn transactional(self, handler: impl TransactionalMessageHandler) -> OutboxBuilder {
        self.handler(Handler::TransactionalEach(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, in batches.
    pub fn transactional_batch(self, handler: impl TransactionalHandler) -> OutboxBuilder {
        self.handler(Handler::TransactionalBatch(Arc::new(handler)))
    }

    fn handler(mut self, handler: Handler) -> OutboxBuilder {
        if let Some(queue) = self.queue {
            self.builder.consumers.push(ConsumerSpec {
                queue,
                name: self.consumer,
                handler,
                lease: self.lease,
                retry: self.retry,
                batch: self.batch,
                from_earliest: self.from_earliest,
                event_types: self.event_types,
            });
        }
        self.builder
    }
}
