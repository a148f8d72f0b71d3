//! The reconciler: finds the work whose signal was lost, also that of other processes.
//!
//! Signals only make delivery fast; the reconciler makes it certain. One query per interval finds
//! queues with messages to number, partitions with messages to deliver, and paused queues. A pass
//! also writes the heartbeats of this process's consumers when they are due. Now and then a pass is
//! thorough: then it also searches where nothing is expected.

use super::supervisor::{ServedQueue, ServiceContext, Supervisor};
use crate::database::reconcile::{Waiting, waiting};
use crate::database::registration::Present;
use crate::delivery::consumer::Consumer;
use crate::queue::QueueId;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a process writes the heartbeat of its consumers.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(15);

/// How often the reconciler searches also where nothing is expected.
const THOROUGH_EVERY: Duration = Duration::from_secs(30);

/// Wakes whatever has work, once in each interval, until the outbox stops.
pub(crate) async fn run(context: Arc<ServiceContext>) {
    let tuning = &context.profile.reconciler;
    let ids = context.queues.iter().map(|served| served.queue.queue_id());
    let mut reconciler = Reconciler {
        context: &context,
        supervisor: context.supervisor("the reconciler", tuning),
        queue_ids: ids.collect(),
    };
    let mut schedule = Schedule::default();
    while !context.stopping() {
        let due = schedule.due(Instant::now());
        if reconciler.run_once(due).await.is_some() {
            schedule.done(due, Instant::now());
            context.connections.release_idle();
            context.pause(tuning.idle_interval).await;
        }
    }
}

struct Reconciler<'a> {
    context: &'a ServiceContext,
    supervisor: Supervisor<'a>,
    queue_ids: Vec<QueueId>,
}

impl Reconciler<'_> {
    /// Finds waiting work and wakes its sequencers and partitions. Returns how many finds there
    /// were, or `None` if the pass failed.
    async fn run_once(&mut self, due: Due) -> Option<usize> {
        let context = self.context;
        let heartbeats = if due.heartbeat {
            heartbeats(context)
        } else {
            Vec::new()
        };
        let pass = waiting(
            &context.db,
            &self.queue_ids,
            &context.owner,
            due.thorough,
            &heartbeats,
        );
        let found = self.supervisor.run(pass).await?;
        for served in &context.queues {
            wake(served, &found);
        }
        Some(found.len())
    }
}

/// The heartbeats of this process's consumers, each with all its event types.
pub(crate) fn heartbeats(context: &ServiceContext) -> Vec<Present> {
    let dispatchers = context.queues.iter().flat_map(|served| &served.dispatchers);
    let consumers = dispatchers.map(|dispatcher| &dispatcher.consumer);
    let heartbeat = |c: &Consumer| Present::new(c.queue_id, &c.name, &c.registered_types());
    let mut heartbeats: Vec<Present> = consumers.map(heartbeat).collect();
    // Every process writes them in the same order, so that no two block each other.
    heartbeats.sort_by(|a, b| (a.queue_id, &a.name).cmp(&(b.queue_id, &b.name)));
    heartbeats
}

/// Wakes whatever has work in one queue.
fn wake(served: &ServedQueue, found: &[Waiting]) {
    let queue_id = served.queue.queue_id();
    let paused = found.contains(&Waiting::Paused { queue_id });
    served.paused.store(paused, Ordering::Release);
    if found.contains(&Waiting::BelowLowWatermark { queue_id }) {
        tracing::warn!(
            queue = served.queue.name(),
            "messages have ids below those already numbered: ids of outbox_body began anew, or \
             a producer draws one before it has a transaction id; they are delivered late"
        );
        served.signal.request_thorough_poll();
        served.signal.send();
    }
    if found.contains(&Waiting::Unsequenced { queue_id }) {
        served.signal.send();
    }
    for waiting in found {
        let Waiting::Claimable {
            partition_id,
            consumer,
        } = waiting
        else {
            continue;
        };
        if partition_id.queue() != queue_id {
            continue;
        }
        for dispatcher in &served.dispatchers {
            if dispatcher.consumer.name == *consumer {
                dispatcher.wake(partition_id.number());
            }
        }
    }
}

/// What a pass does beside its usual work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    thorough: bool,
    heartbeat: bool,
}

/// When the reconciler is thorough, and when it writes a heartbeat. Both are done by its first pass
/// and then at intervals. A pass that failed has done neither.
#[derive(Default)]
struct Schedule {
    thorough_at: Option<Instant>,
    heartbeat_at: Option<Instant>,
}

impl Schedule {
    fn due(&self, now: Instant) -> Due {
        let is_due =
            |last: Option<Instant>, every| last.is_none_or(|last| now.duration_since(last) > every);
        Due {
            thorough: is_due(self.thorough_at, THOROUGH_EVERY),
            heartbeat: is_due(self.heartbeat_at, HEARTBEAT_EVERY),
        }
    }

    fn done(&mut self, due: Due, now: Instant) {
        if due.thorough {
            self.thorough_at = Some(now);
        }
        if due.heartbeat {
            self.heartbeat_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_come_every_15_seconds_and_thorough_passes_every_30() {
        let (start, mut schedule) = (Instant::now(), Schedule::default());
        let mut done = Vec::new();
        for second in 0..=65 {
            let now = start + Duration::from_secs(second);
            let due = schedule.due(now);
            // The pass of second 16 fails.
            if second != 16 {
                schedule.done(due, now);
                done.push((second, due.thorough, due.heartbeat));
            }
        }
        done.retain(|(_, thorough, heartbeat)| *thorough || *heartbeat);
        // An interval must be over, not only reached.
        let expected = [
            (0, true, true),
            (17, false, true),
            (31, true, false),
            (33, false, true),
            (49, false, true),
            (62, true, false),
            (65, false, true),
        ];
        assert_eq!(done, expected);
    }
}
