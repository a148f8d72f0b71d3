//! The reconciler: finds what lost its wake-up.

use super::supervisor::{QueueRuntime, Shared};
use crate::database::reconcile::{Waiting, waiting};
use crate::database::registration::Present;
use crate::delivery::consumer::Consumer;
use crate::queue::QueueId;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a process says that it is there.
const SAY_SEEN_EVERY: Duration = Duration::from_secs(15);

/// How often the reconciler looks where nothing is expected.
const THOROUGH_EVERY: Duration = Duration::from_secs(30);

/// Finds what lost its wake-up, in one query per interval.
pub(crate) async fn run_reconciler(shared: Arc<Shared>) {
    let tuning = &shared.profile.reconciler;
    let ids: Vec<QueueId> = shared.queues.iter().map(|q| q.queue.queue_id()).collect();
    let (mut failures, mut seen_at, mut thorough_at) = (0, None::<Instant>, None::<Instant>);
    while !shared.stopping() {
        let due = |at: Option<Instant>, every| at.is_none_or(|at| at.elapsed() > every);
        let thorough = due(thorough_at, THOROUGH_EVERY);
        let present = match due(seen_at, SAY_SEEN_EVERY) {
            true => present(&shared),
            false => Vec::new(),
        };
        let pass = waiting(&shared.db, &ids, &shared.owner, thorough, &present);
        let Some(found) = shared
            .pass("the reconciler", tuning, &mut failures, pass)
            .await
        else {
            continue;
        };
        if thorough {
            thorough_at = Some(Instant::now());
        }
        if !present.is_empty() {
            seen_at = Some(Instant::now());
        }
        for runtime in &shared.queues {
            reconcile(runtime, &found);
        }
        shared.kept.release_idle();
        shared.pause(tuning.idle_interval).await;
    }
}

/// The consumers of this process, with all their types.
pub(crate) fn present(shared: &Shared) -> Vec<Present> {
    let dispatchers = shared.queues.iter().flat_map(|queue| &queue.dispatchers);
    let consumers = dispatchers.map(|dispatcher| &dispatcher.consumer);
    let present = |c: &Consumer| Present::new(c.queue_id, &c.name, &c.registered_types());
    let mut present: Vec<Present> = consumers.map(present).collect();
    // Everybody writes them in the same order.
    present.sort_by(|a, b| (a.queue_id, &a.name).cmp(&(b.queue_id, &b.name)));
    present
}

fn reconcile(runtime: &QueueRuntime, found: &[Waiting]) {
    let id = runtime.queue.queue_id();
    let paused = found.contains(&Waiting::Paused { queue_id: id });
    runtime.paused.store(paused, Ordering::Release);
    if found.contains(&Waiting::BelowMark { queue_id: id }) {
        tracing::warn!(
            queue = runtime.queue.name(),
            "messages have ids below those already numbered: ids of outbox_body began anew, or \
             a producer draws one before it has a transaction id; they are delivered late"
        );
        runtime.signal.look_everywhere();
        runtime.signal.mark();
    }
    if found.contains(&Waiting::Unsequenced { queue_id: id }) {
        runtime.signal.mark();
    }
    for waiting in found {
        let Waiting::Claimable {
            partition_id,
            consumer,
        } = waiting
        else {
            continue;
        };
        if partition_id.queue() != id {
            continue;
        }
        for dispatcher in &runtime.dispatchers {
            if dispatcher.consumer.name == *consumer {
                dispatcher.wake(partition_id.number());
            }
        }
    }
}
