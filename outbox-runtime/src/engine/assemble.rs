//! From a checked description to what runs: queues, consumers, dispatchers. Nothing runs yet.

use super::builder::{ConsumerSpec, OutboxBuilder, RouteSpec};
use crate::database::connection_cache::ConnectionCache;
use crate::delivery::claim_batcher::ClaimBatcher;
use crate::delivery::consumer::{Consumer, Owed};
use crate::delivery::failure_log::FailureLog;
use crate::delivery::guard::Stop;
use crate::delivery::route::{Route, Routes};
use crate::queue::{Queue, signal};
use crate::registry::{Mode, events};
use crate::service::dispatcher::Dispatcher;
use crate::service::supervisor::{ServedQueue, ServiceContext};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Connections that our own short statements may use at once, in the whole process.
const STATEMENT_CONNECTIONS: usize = 4;

impl OutboxBuilder {
    /// Makes what the services work with. From now on the sequencers' signals are noted.
    pub(super) fn assemble(mut self, tasks: &TaskTracker) -> Arc<ServiceContext> {
        let consumers = std::mem::take(&mut self.consumers);
        log_queues(&consumers);
        let assembly = Assembly::new(self, known_types(&consumers), tasks);
        let mut queues: Vec<ServedQueue> = Vec::new();
        for spec in consumers {
            let known = queues.iter().position(|served| served.queue == spec.queue);
            let index = known.unwrap_or_else(|| {
                queues.push(assembly.served_queue(&spec.queue));
                queues.len() - 1
            });
            let dispatcher = assembly.dispatcher(spec, &queues[index]);
            queues[index].dispatchers.push(dispatcher);
        }
        Arc::new(assembly.into_context(queues))
    }
}

/// What all queues and consumers of one outbox share.
struct Assembly<'a> {
    /// Without its consumers.
    builder: OutboxBuilder,
    /// Queues with the event types that this binary knows of them.
    known_types: Vec<(String, String)>,
    connections: Arc<ConnectionCache>,
    claims: Option<Arc<ClaimBatcher>>,
    owner: Arc<str>,
    statements: Arc<Semaphore>,
    /// Held for a message that is suspected of killing the process: one at a time.
    solitude: Arc<Semaphore>,
    stop: Stop,
    progress: Arc<Notify>,
    tasks: &'a TaskTracker,
}

impl<'a> Assembly<'a> {
    fn new(
        builder: OutboxBuilder,
        known_types: Vec<(String, String)>,
        tasks: &'a TaskTracker,
    ) -> Self {
        let connections = Arc::new(ConnectionCache::new(builder.db.clone()));
        let owner: Arc<str> = format!("{}-{}", std::process::id(), Uuid::new_v4().simple()).into();
        let statements = Arc::new(Semaphore::new(STATEMENT_CONNECTIONS));
        Self {
            claims: ClaimBatcher::new(
                &connections,
                &owner,
                builder.asynchronous_commit,
                &statements,
            ),
            builder,
            known_types,
            connections,
            owner,
            statements,
            solitude: Arc::new(Semaphore::new(1)),
            stop: Stop::default(),
            progress: Arc::default(),
            tasks,
        }
    }

    /// A queue without consumers yet.
    fn served_queue(&self, queue: &Queue) -> ServedQueue {
        let signal = Arc::default();
        signal::register(queue.queue_id(), &signal);
        ServedQueue {
            queue: queue.clone(),
            signal,
            paused: Arc::new(AtomicBool::new(false)),
            handlers: permits(self.builder.handlers_per_queue),
            transactions: permits(self.builder.transactions_per_queue),
            dispatchers: Vec::new(),
        }
    }

    fn dispatcher(&self, spec: ConsumerSpec, served: &ServedQueue) -> Arc<Dispatcher> {
        let partitions = spec.queue.partitions().count();
        let (tasks, progress) = (self.tasks.clone(), self.progress.clone());
        Dispatcher::new(self.consumer(spec, served), partitions, tasks, progress)
    }

    fn consumer(&self, spec: ConsumerSpec, served: &ServedQueue) -> Consumer {
        let builder = &self.builder;
        let mut tuning = builder.profile.processor.clone();
        tuning.batch_size = spec.batch.unwrap_or(tuning.batch_size);
        let permits = match spec.mode {
            Mode::Leased => &served.handlers,
            Mode::Transactional => &served.transactions,
        };
        let retry = spec.routes.first().map(|route| route.retry);
        let routes = routes(spec.routes);
        Consumer {
            db: builder.db.clone(),
            connections: self.connections.clone(),
            claims: self.claims.clone(),
            queue: spec.queue.name().into(),
            queue_id: spec.queue.queue_id(),
            name: spec.name,
            owner: self.owner.clone(),
            mode: spec.mode,
            event_types: routes.event_types(),
            routes: Arc::new(routes),
            concurrency: spec.concurrency,
            window: spec.window,
            known_types: self.known_types_of(&spec.queue),
            states: builder.states.clone(),
            tuning,
            lease: spec.lease,
            retry: retry.unwrap_or_default(),
            on_dead_letter: builder.on_dead_letter.clone(),
            failure_log: FailureLog::default(),
            asynchronous_commit: builder.asynchronous_commit,
            stop: self.stop.clone(),
            paused: served.paused.clone(),
            statements: self.statements.clone(),
            permits: permits.clone(),
            solitude: self.solitude.clone(),
            owed: Owed::default(),
        }
    }

    fn known_types_of(&self, queue: &Queue) -> BTreeSet<String> {
        let known = self.known_types.iter();
        known
            .filter(|(name, _)| name == queue.name())
            .map(|(_, event_type)| event_type.clone())
            .collect()
    }

    fn into_context(self, queues: Vec<ServedQueue>) -> ServiceContext {
        let builder = self.builder;
        ServiceContext {
            db: builder.db,
            connections: self.connections,
            owner: self.owner,
            profile: builder.profile,
            retention: builder.retention,
            asynchronous_commit: builder.asynchronous_commit,
            stop: self.stop,
            statements: self.statements,
            progress: self.progress,
            lost_connections: AtomicU64::new(0),
            queues,
        }
    }
}

fn routes(specs: Vec<RouteSpec>) -> Routes {
    let mut routes = Routes::default();
    for spec in specs {
        let route = Route {
            handler: spec.handler,
            retry: spec.retry,
            batch: spec.batch,
            timeout: spec.timeout,
        };
        routes.add(spec.event_types.as_ref(), route);
    }
    routes
}

fn permits(count: u32) -> Arc<Semaphore> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)))
}

/// Queue and event type of everything that this binary knows: events linked into it, and types that
/// consumers here take.
fn known_types(consumers: &[ConsumerSpec]) -> Vec<(String, String)> {
    let events = events().flat_map(|event| {
        let names = event.names();
        names.map(|name| (event.queue.name().to_owned(), name.to_owned()))
    });
    let taken = consumers.iter().flat_map(|spec| {
        let types = spec.event_types().unwrap_or_default().into_iter();
        types.map(|name| (spec.queue.name().to_owned(), name))
    });
    events.chain(taken).collect()
}

/// Logs what is going to run here, one line for each queue.
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
