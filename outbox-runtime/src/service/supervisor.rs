//! What the services share, and how a pass is run: it survives whatever the pass does.

use super::dispatcher::Dispatcher;
use crate::config::{OutboxProfile, WorkerTuning, backoff};
use crate::database::connection_cache::Kept;
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

/// What the loops share.
pub(crate) struct Shared {
    pub(crate) db: DatabaseConnection,
    pub(crate) kept: Arc<Kept>,
    /// Whose leases are ours.
    pub(crate) owner: Arc<str>,
    pub(crate) profile: OutboxProfile,
    pub(crate) retention: Duration,
    pub(crate) asynchronous: bool,
    pub(crate) stop: Stop,
    pub(crate) statements: Arc<Semaphore>,
    pub(crate) progress: Arc<Notify>,
    /// How often a pass lost its connection: the server may have lost commits with it.
    pub(crate) lost_connections: AtomicU64,
    pub(crate) queues: Vec<QueueRuntime>,
}

/// A queue this process serves.
pub(crate) struct QueueRuntime {
    pub(crate) queue: Queue,
    pub(crate) signal: Arc<QueueSignal>,
    pub(crate) paused: Arc<AtomicBool>,
    /// Bounds its leased handlers running at once.
    pub(crate) handlers: Arc<Semaphore>,
    /// Bounds the transactions of its handlers, so that a slow queue cannot take
    /// every connection.
    pub(crate) transactions: Arc<Semaphore>,
    pub(crate) dispatchers: Vec<Arc<Dispatcher>>,
}

impl QueueRuntime {
    pub(super) fn wake(&self, partitions: PartitionSet) {
        for dispatcher in &self.dispatchers {
            dispatcher.wake_all(partitions);
        }
    }
}

impl Shared {
    /// Runs a pass; `None` if it failed, after logging and a pause.
    pub(crate) async fn pass<T>(
        &self,
        what: &str,
        tuning: &WorkerTuning,
        failures: &mut u32,
        pass: impl Future<Output = Result<T, DbErr>>,
    ) -> Option<T> {
        let permit = self.statements.acquire().await;
        let result = AssertUnwindSafe(pass).catch_unwind().await;
        drop(permit);
        match result {
            Ok(Ok(done)) => {
                *failures = 0;
                return Some(done);
            }
            Ok(Err(error)) if classify(&error) == ErrorClass::Race => {
                tracing::debug!(%error, "{what}: lost a race");
            }
            Ok(Err(error)) => {
                if classify(&error) == ErrorClass::Connection {
                    self.lost_connections.fetch_add(1, Ordering::AcqRel);
                    // Vacuum starts over now, not when its interval is over.
                    self.progress.notify_one();
                }
                tracing::warn!(%error, "{what} failed; it will be tried again");
            }
            Err(_) => tracing::error!("{what} panicked; it will be tried again"),
        }
        let pause = backoff(tuning.retry_base, tuning.retry_max, *failures, true);
        *failures = failures.saturating_add(1);
        self.pause(pause.max(Duration::from_millis(1))).await;
        None
    }

    pub(crate) async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.stop.stopping.cancelled() => {}
        }
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.stopping.is_cancelled()
    }
}
