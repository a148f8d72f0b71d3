//! A consumer of a queue in this process: what its partitions have in common.

use super::failure_log::FailureLog;
use super::guard::Stop;
pub(crate) use super::quarantine::Owed;
use super::route::Routes;
use crate::config::{LeaseConfig, RetryPolicy, WorkerTuning};
use crate::database::connection_cache::ConnectionCache;
use crate::database::registration::registered_types;
use crate::delivery::claim_batcher::ClaimBatcher;
use crate::handler::DeadLetterHook;
use crate::handler::states::States;
use crate::queue::QueueId;
use crate::registry::Mode;
use sea_orm::DatabaseConnection;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Semaphore;

/// A consumer of a queue in this process.
pub(crate) struct Consumer {
    pub(crate) db: DatabaseConnection,
    pub(crate) connections: Arc<ConnectionCache>,
    /// Puts claims of many partitions together, where the engine can.
    pub(crate) claims: Option<Arc<ClaimBatcher>>,
    pub(crate) queue: Arc<str>,
    pub(crate) queue_id: QueueId,
    pub(crate) name: String,
    pub(crate) owner: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) routes: Arc<Routes>,
    /// How many keys of a partition at a time.
    pub(crate) concurrency: u32,
    /// How many messages ahead of the cursor are known, if many keys run at a time.
    pub(crate) window: u32,
    /// The event types it handles; `None` for all.
    pub(crate) event_types: Option<BTreeSet<String>>,
    /// The event types of its queue that this binary knows.
    pub(crate) known_types: BTreeSet<String>,
    pub(crate) states: States,
    pub(crate) tuning: WorkerTuning,
    pub(crate) lease: LeaseConfig,
    /// For messages of types that have no handler here.
    pub(crate) retry: RetryPolicy,
    pub(crate) on_dead_letter: DeadLetterHook,
    pub(crate) failure_log: FailureLog,
    pub(crate) asynchronous_commit: bool,
    pub(crate) stop: Stop,
    pub(crate) paused: Arc<AtomicBool>,
    /// Bounds the connections our own short statements use in this process.
    pub(crate) statements: Arc<Semaphore>,
    /// Bounds the handlers of its queue and mode that run at once; a turn has one.
    pub(crate) permits: Arc<Semaphore>,
    /// One permit for the whole process, for the suspect that must be alone: see
    /// [`quarantine`](super::quarantine).
    pub(crate) solitude: Arc<Semaphore>,
    /// Charges that are to be taken back before anything is claimed from their partitions.
    pub(crate) owed: Owed,
}

impl Consumer {
    pub(crate) fn handles(&self, event_type: &str) -> bool {
        self.routes.get(event_type).is_some()
    }

    pub(crate) fn handles_all(&self, event_types: &BTreeSet<String>) -> bool {
        let types = self.event_types.as_ref();
        types.is_none_or(|types| types.is_superset(event_types))
    }

    /// Its types as they are registered.
    pub(crate) fn registered_types(&self) -> BTreeSet<String> {
        registered_types(self.event_types.as_ref())
    }

    pub(crate) fn is_transactional(&self) -> bool {
        self.mode == Mode::Transactional
    }

    /// How often and when a message of this type is tried again.
    pub(crate) fn retry(&self, event_type: &str) -> RetryPolicy {
        let route = self.routes.get(event_type);
        route.map_or(self.retry, |route| route.retry)
    }

    /// How many bytes of payloads are claimed at once.
    pub(crate) fn most_bytes(&self) -> i64 {
        i64::try_from(self.tuning.batch_bytes).unwrap_or(i64::MAX)
    }

    /// Whether all permits are taken: other partitions may be waiting for one.
    pub(super) fn is_crowded(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Whether a message of a partition has a charge that is to be taken back.
    pub(crate) fn owes(&self, partition: u32) -> bool {
        self.owed.any(self.queue_id.partition(partition))
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }
}
