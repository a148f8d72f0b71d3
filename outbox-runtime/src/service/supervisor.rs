//! What the services of one outbox share, and how a pass of a service is run.
//!
//! A pass is one bounded piece of work on the database. The supervisor runs it and survives it: a
//! pass that fails or panics is logged, the service pauses, and then it tries again. So a service
//! ends only when the outbox stops.

use super::dispatcher::Dispatcher;
use crate::config::{OutboxProfile, WorkerTuning, backoff};
use crate::database::connection_cache::ConnectionCache;
use crate::database::errors::{ErrorClass, classify};
use crate::delivery::guard::Stop;
use crate::queue::signal::QueueSignal;
use crate::queue::{PartitionSet, Queue};
use futures_util::FutureExt;
use sea_orm::{DatabaseConnection, DbErr};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};

/// What every service of one outbox works with.
pub(crate) struct ServiceContext {
    pub(crate) db: DatabaseConnection,
    pub(crate) connections: Arc<ConnectionCache>,
    /// The name of this outbox in the leases that it holds.
    pub(crate) owner: Arc<str>,
    pub(crate) profile: OutboxProfile,
    /// How long delivered messages are kept.
    pub(crate) retention: Duration,
    /// Whether commits of our own bookkeeping may return before the disk has them.
    pub(crate) asynchronous_commit: bool,
    pub(crate) stop: Stop,
    /// Bounds the connections that our own short statements use at once.
    pub(crate) statements: Arc<Semaphore>,
    /// Notified when a consumer acknowledged something: vacuum may have rows to delete.
    pub(crate) progress: Arc<Notify>,
    /// How often a pass lost its connection. The server may have lost commits with it.
    pub(crate) lost_connections: AtomicU64,
    pub(crate) queues: Vec<ServedQueue>,
}

/// A queue that this process serves.
pub(crate) struct ServedQueue {
    pub(crate) queue: Queue,
    /// Wakes the queue's sequencer.
    pub(crate) signal: Arc<QueueSignal>,
    pub(crate) paused: Arc<AtomicBool>,
    /// Bounds the queue's leased handlers that run at once.
    pub(crate) handlers: Arc<Semaphore>,
    /// Bounds the transactions of the queue's handlers, so that a slow queue cannot take every
    /// connection.
    pub(crate) transactions: Arc<Semaphore>,
    /// One for each consumer.
    pub(crate) dispatchers: Vec<Arc<Dispatcher>>,
}

impl ServedQueue {
    /// Wakes these partitions for every consumer.
    pub(super) fn wake(&self, partitions: PartitionSet) {
        for dispatcher in &self.dispatchers {
            dispatcher.wake_all(partitions);
        }
    }
}

impl ServiceContext {
    /// A supervisor for one service. `service` names it in log lines.
    pub(super) fn supervisor<'a>(
        &'a self,
        service: &'a str,
        tuning: &'a WorkerTuning,
    ) -> Supervisor<'a> {
        Supervisor {
            context: self,
            service,
            tuning,
            failures: 0,
        }
    }

    /// Waits this long, or until the outbox stops.
    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.stop.stopping.cancelled() => {}
        }
    }

    /// Whether the outbox is stopping.
    pub(crate) fn stopping(&self) -> bool {
        self.stop.stopping.is_cancelled()
    }
}

/// Runs the passes of one service.
pub(super) struct Supervisor<'a> {
    context: &'a ServiceContext,
    service: &'a str,
    tuning: &'a WorkerTuning,
    /// Failed passes in a row.
    failures: u32,
}

impl Supervisor<'_> {
    /// Runs a pass. `None` means that it failed; then the failure is logged and the pause after it
    /// is over.
    pub(super) async fn run<T>(
        &mut self,
        pass: impl Future<Output = Result<T, DbErr>>,
    ) -> Option<T> {
        let (context, service) = (self.context, self.service);
        let permit = context.statements.acquire().await;
        let result = AssertUnwindSafe(pass).catch_unwind().await;
        drop(permit);
        match result {
            Ok(Ok(done)) => {
                self.failures = 0;
                return Some(done);
            }
            Ok(Err(error)) if classify(&error) == ErrorClass::Race => {
                tracing::debug!(%error, "{service}: lost a race");
            }
            Ok(Err(error)) => {
                if classify(&error) == ErrorClass::Connection {
                    context.lost_connections.fetch_add(1, Ordering::AcqRel);
                    // Wakes vacuum, which then starts over without waiting for its interval.
                    context.progress.notify_one();
                }
                tracing::warn!(%error, "{service} failed; it will be tried again");
            }
            Err(_) => tracing::error!("{service} panicked; it will be tried again"),
        }
        let (base, max) = (self.tuning.retry_base, self.tuning.retry_max);
        let pause = backoff(base, max, self.failures, true);
        self.failures = self.failures.saturating_add(1);
        context.pause(pause.max(Duration::from_millis(1))).await;
        None
    }
}
