//! From a description to what runs: check, register, spawn.

use super::builder::{ConsumerSpec, OutboxBuilder};
use super::handle::{Outbox, OutboxHandle};
use super::problem::{ConfigError, StartError};
use crate::config::backoff;
use crate::database::claims::Claims;
use crate::database::connection_cache::Kept;
use crate::database::dialect::{ErrorClass, classify};
use crate::database::registration::{self, NewConsumer};
use crate::database::setup_advice::sqlite_advice;
use crate::delivery::consumer::Consumer;
use crate::delivery::failure_log::FailureLog;
use crate::delivery::guard::Stop;
use crate::delivery::route::{Route, Routes};
use crate::queue::Queue;
use crate::queue::signal;
use crate::registry::{Mode, events};
use crate::service::dispatcher::Dispatcher;
use crate::service::supervisor::{ServedQueue, ServiceContext};
use crate::service::{
    notifier, orphan_bodies, reconciler, retention, sequencer, stuck_work, vacuum,
};
use sea_orm::DbErr;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Connections our own short statements may use at once, in the whole process.
const STATEMENT_CONNECTIONS: usize = 4;

impl OutboxBuilder {
    /// Checks everything, makes queues and consumers known to the database, and
    /// starts to deliver.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn start(mut self) -> Result<OutboxHandle, StartError> {
        self.prepare().await?;
        for advice in sqlite_advice(&self.db).await {
            tracing::warn!("{advice}");
        }
        Ok(self.spawn())
    }

    /// Makes consumers and their queues, and the queues of all events linked into
    /// this binary, known to the database without delivering anything. Do it
    /// before producers are deployed: a consumer gets what is committed after it was
    /// registered, the first of a queue gets everything.
    ///
    /// # Errors
    /// [`StartError`] with every problem there is.
    pub async fn register(mut self) -> Result<(), StartError> {
        self.selection.states_are_given_later();
        self.prepare().await?;
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

    /// Finds the handlers, checks everything, and makes it known to the database.
    pub(super) async fn prepare(&mut self) -> Result<(), StartError> {
        self.discover();
        self.check();
        StartError::unless_empty(std::mem::take(&mut self.problems))?;
        self.register_all().await
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
            let types = registration::registered_types(spec.event_types().as_ref());
            let consumer = NewConsumer {
                name: &spec.name,
                mode: spec.mode.as_str(),
                event_types: &types,
                from_earliest: spec.from_earliest,
            };
            let registered =
                retrying(|| registration::consumer(&self.db, &spec.queue, &consumer)).await?;
            if let Err(conflict) = registered {
                problems.push(ConfigError::from_consumer_conflict(conflict, spec));
            }
        }
        // Queues that this binary only produces to are not registered here, but those of another
        // process may have another number of partitions.
        let mut produced: Vec<Queue> = Vec::new();
        for event in events() {
            if !queues.contains(&&event.queue) && !produced.contains(&event.queue) {
                produced.push(event.queue.clone());
            }
        }
        let conflicts = retrying(|| registration::conflicts(&self.db, &produced)).await?;
        for (queue, conflict) in conflicts {
            problems.push(ConfigError::from_conflict(conflict, queue));
        }
        StartError::unless_empty(problems)
    }

    fn spawn(self) -> OutboxHandle {
        let (retention, notify) = (self.dead_letter_retention, self.notify);
        let tasks = TaskTracker::new();
        let context = self.assemble(&tasks);
        for queue in 0..context.queues.len() {
            tasks.spawn(sequencer::run(context.clone(), queue));
        }
        if !context.queues.is_empty() {
            tasks.spawn(reconciler::run(context.clone()));
            tasks.spawn(vacuum::run(context.clone()));
            tasks.spawn(orphan_bodies::run(context.clone()));
            tasks.spawn(stuck_work::run(context.clone()));
        }
        if let Some(retention) = retention {
            tasks.spawn(retention::run(context.clone(), retention));
        }
        if notify {
            notifier::spawn(&context, &tasks);
        }
        OutboxHandle::new(Outbox::new(context), tasks)
    }

    /// What runs, before anything does.
    pub(super) fn assemble(self, tasks: &TaskTracker) -> Arc<ServiceContext> {
        let stop = Stop::default();
        let statements = Arc::new(Semaphore::new(STATEMENT_CONNECTIONS));
        let kept = Arc::new(Kept::new(self.db.clone()));
        let solitude = Arc::new(Semaphore::new(1));
        let progress = Arc::default();
        let owner: Arc<str> = format!("{}-{}", std::process::id(), Uuid::new_v4().simple()).into();
        let claims = Claims::new(&kept, &owner, self.asynchronous, &statements);
        let mut queues: Vec<ServedQueue> = Vec::new();
        let known: Vec<(String, String)> = known_types(&self.consumers);
        log_queues(&self.consumers);
        for spec in self.consumers {
            let running = queues.iter().position(|q| q.queue == spec.queue);
            let index = running.unwrap_or_else(|| {
                let signal = Arc::default();
                signal::register(spec.queue.queue_id(), &signal);
                queues.push(ServedQueue {
                    queue: spec.queue.clone(),
                    signal,
                    paused: Arc::new(AtomicBool::new(false)),
                    handlers: permits(self.handlers_per_queue),
                    transactions: permits(self.transactions_per_queue),
                    dispatchers: Vec::new(),
                });
                queues.len() - 1
            });
            let runtime = &mut queues[index];
            let mut tuning = self.profile.processor.clone();
            tuning.batch_size = spec.batch.unwrap_or(tuning.batch_size);
            let mut routes = Routes::default();
            let retry = spec.routes.first().map(|route| route.retry);
            for route in spec.routes {
                routes.add(
                    route.event_types.as_ref(),
                    Route {
                        handler: route.handler,
                        retry: route.retry,
                        batch: route.batch,
                        timeout: route.timeout,
                    },
                );
            }
            let permits = if spec.mode == Mode::Transactional {
                runtime.transactions.clone()
            } else {
                runtime.handlers.clone()
            };
            let consumer = Consumer {
                db: self.db.clone(),
                kept: kept.clone(),
                claims: claims.clone(),
                queue: spec.queue.name().into(),
                queue_id: spec.queue.queue_id(),
                name: spec.name,
                owner: owner.clone(),
                mode: spec.mode,
                event_types: routes.event_types(),
                routes: Arc::new(routes),
                concurrency: spec.concurrency,
                window: spec.window,
                known_types: known
                    .iter()
                    .filter(|(queue, _)| queue == spec.queue.name())
                    .map(|(_, event_type)| event_type.clone())
                    .collect(),
                states: self.states.clone(),
                tuning,
                lease: spec.lease,
                retry: retry.unwrap_or_default(),
                on_dead_letter: self.on_dead_letter.clone(),
                failure_log: FailureLog::default(),
                asynchronous: self.asynchronous,
                stop: stop.clone(),
                paused: runtime.paused.clone(),
                statements: statements.clone(),
                permits,
                solitude: solitude.clone(),
            };
            runtime.dispatchers.push(Dispatcher::new(
                consumer,
                spec.queue.partitions().count(),
                tasks.clone(),
                Arc::clone(&progress),
            ));
        }
        Arc::new(ServiceContext {
            db: self.db,
            connections: kept,
            owner,
            profile: self.profile,
            retention: self.retention,
            asynchronous: self.asynchronous,
            stop,
            statements,
            progress,
            lost_connections: AtomicU64::new(0),
            queues,
        })
    }
}

/// One line for each queue: what is going to run here.
fn log_queues(consumers: &[ConsumerSpec]) {
    let mut queues: BTreeMap<&str, (u32, Vec<String>)> = BTreeMap::new();
    for spec in consumers {
        let partitions = spec.queue.partitions().count();
        let (_, lines) = queues
            .entry(spec.queue.name())
            .or_insert((partitions, Vec::new()));
        let handlers: Vec<_> = spec.routes.iter().filter_map(|route| route.name).collect();
        lines.push(match handlers.as_slice() {
            [] => format!("{} ({})", spec.name, spec.mode),
            names => format!("{} ({}: {})", spec.name, spec.mode, names.join(", ")),
        });
    }
    for (queue, (partitions, consumers)) in queues {
        let consumers = consumers.join("; ");
        tracing::info!(queue, partitions, consumers, "outbox starts to deliver");
    }
}

fn permits(count: u32) -> Arc<Semaphore> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// Queue and event type of everything this binary knows: events linked into it
/// and types that consumers here take.
fn known_types(consumers: &[ConsumerSpec]) -> Vec<(String, String)> {
    let events = events().flat_map(|event| {
        event
            .names()
            .map(|name| (event.queue.name().to_owned(), name.to_owned()))
    });
    let taken = consumers.iter().flat_map(|spec| {
        let types = spec.event_types().unwrap_or_default().into_iter();
        types.map(|name| (spec.queue.name().to_owned(), name))
    });
    events.chain(taken).collect()
}

/// Races between processes that start at once are run again.
async fn retrying<T, F: Future<Output = Result<T, DbErr>>>(
    mut work: impl FnMut() -> F,
) -> Result<T, StartError> {
    let mut tries = 0;
    loop {
        match work().await {
            Err(error) if tries < 20 && classify(&error) == ErrorClass::Race => {
                tries += 1;
                let pause = backoff(
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
