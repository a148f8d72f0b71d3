//! The loops: each calls bounded passes, waits, and survives whatever a pass does.

use super::dispatch::Dispatcher;
use crate::dialect::{ErrorClass, classify};
use crate::queue::{PartitionSet, Queue, number_of, partition_id, queue_of};
use crate::stage::consumer::Consumer;
use crate::stage::guard::Stop;
use crate::store::kept::Kept;
use crate::store::reconcile::{Waiting, waiting};
use crate::store::registration::Present;
use crate::store::sequencing::{Places, Sequenced, sequence};
use crate::store::{cleanup, cursor};
use crate::tuning::{OutboxProfile, Pace, WorkerTuning, backoff};
use crate::wake::QueueSignal;
use futures_util::FutureExt;
use sea_orm::{DatabaseConnection, DbErr};
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};

/// So long after a signal a sequencer that finds nothing looks again at once, since the
/// commit comes after the signal: a look is one statement that writes nothing.
const EAGER: Duration = Duration::from_millis(4);

/// Then it looks again every millisecond, as long as commits usually take, and then
/// after 2, 4, 8 ... ms, so often in all.
const STEADY_LOOKS: u32 = 6;
const HOT_LOOKS: u32 = 14;

/// After a pass that found something it rests as long as that took, within these: the
/// busier the server, the more each pass is for. Longer rests were measured to add their
/// length to every message and to save next to nothing.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSE: Duration = Duration::from_millis(5);

/// Acknowledged messages are deleted together with those of so long.
const VACUUM_PAUSE: Duration = Duration::from_millis(100);
const SHORT_VACUUM_PAUSE: Duration = Duration::from_millis(10);
const LONG_VACUUM_PAUSE: Duration = Duration::from_millis(500);

/// After so many of its idle intervals vacuum begins at the oldest rows again: a server that
/// crashed may have brought back what it had deleted, and nobody says so.
const VACUUM_STARTS_OVER: u32 = 5;

/// How often a process says that it is there.
const SAY_SEEN_EVERY: Duration = Duration::from_secs(15);

/// How often the reconciler looks where nothing is expected.
const THOROUGH_EVERY: Duration = Duration::from_secs(30);

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
    fn wake(&self, partitions: PartitionSet) {
        for dispatcher in &self.dispatchers {
            dispatcher.wake_all(partitions);
        }
    }
}

impl Shared {
    /// Runs a pass; `None` if it failed, after logging and a pause.
    pub(super) async fn pass<T>(
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

    pub(super) async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.stop.stopping.cancelled() => {}
        }
    }

    pub(super) fn stopping(&self) -> bool {
        self.stop.stopping.is_cancelled()
    }
}

/// Numbers what is committed, as long as there is something; then waits.
pub(crate) async fn run_sequencer(shared: Arc<Shared>, index: usize) {
    let runtime = &shared.queues[index];
    let tuning = &shared.profile.sequencer;
    let what = format!("the sequencer of queue `{}`", runtime.queue.name());
    let limit = tuning.batch_size;
    let (mut looks, mut failures, mut places) = (0, 0, Places::default());
    let (mut marks, mut marked_at) = (runtime.signal.marks(), Instant::now());
    let mut pace = Pace::new(tuning);
    while !shared.stopping() {
        if marks != runtime.signal.marks() {
            (marks, marked_at) = (runtime.signal.marks(), Instant::now());
            looks = 0;
        }
        let began = Instant::now();
        let thorough = runtime.signal.take_thorough();
        let pass = sequence(
            &shared.kept,
            runtime.queue.id(),
            limit,
            shared.asynchronous,
            thorough,
            &mut places,
        );
        let done = shared.pass(&what, tuning, &mut failures, pass).await;
        if thorough && done.as_ref().is_none_or(|done| done.locked) {
            runtime.signal.look_everywhere();
        }
        let Some(done) = done else {
            continue;
        };
        runtime.wake(done.moved);
        if done.taken > 0 {
            looks = 0;
        } else {
            pace = Pace::new(tuning);
            if marked_at.elapsed() < EAGER && !done.locked {
                continue;
            }
            looks += 1;
        }
        if done.taken >= limit as usize {
            shared.pause(pace.next()).await;
        } else if looks < HOT_LOOKS {
            let least = began.elapsed().clamp(LEAST_PAUSE, MOST_PAUSE);
            look_again(&shared, runtime, looks, least, &done).await;
        } else {
            looks = 0;
            tokio::select! {
                () = runtime.signal.marked() => {}
                () = shared.stop.stopping.cancelled() => {}
            }
        }
    }
}

/// A short pause. After a pass that found something, or that somebody else makes, it is
/// `least`: signals come with every message, passes are for many. Else a signal ends it.
async fn look_again(
    shared: &Shared,
    runtime: &QueueRuntime,
    looks: u32,
    least: Duration,
    done: &Sequenced,
) {
    if done.taken > 0 || done.locked {
        tokio::time::sleep(least).await;
    }
    if done.taken == 0 {
        let doublings = looks.saturating_sub(STEADY_LOOKS);
        tokio::select! {
            () = runtime.signal.marked() => {}
            () = shared.pause(LEAST_PAUSE * 2_u32.pow(doublings)) => {}
        }
    }
}

/// Finds what lost its wake-up, in one query per interval.
pub(crate) async fn run_reconciler(shared: Arc<Shared>) {
    let tuning = &shared.profile.reconciler;
    let ids: Vec<i64> = shared.queues.iter().map(|q| q.queue.id()).collect();
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
pub(super) fn present(shared: &Shared) -> Vec<Present> {
    let dispatchers = shared.queues.iter().flat_map(|queue| &queue.dispatchers);
    let consumers = dispatchers.map(|dispatcher| &dispatcher.consumer);
    let present = |c: &Consumer| Present::new(c.queue_id, &c.name, &c.registered_types());
    let mut present: Vec<Present> = consumers.map(present).collect();
    // Everybody writes them in the same order.
    present.sort_by(|a, b| (a.queue_id, &a.name).cmp(&(b.queue_id, &b.name)));
    present
}

fn reconcile(runtime: &QueueRuntime, found: &[Waiting]) {
    let id = runtime.queue.id();
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
        if queue_of(*partition_id) != id {
            continue;
        }
        for dispatcher in &runtime.dispatchers {
            if dispatcher.consumer.name == *consumer {
                dispatcher.wake(number_of(*partition_id));
            }
        }
    }
}

/// Where vacuum starts, in every partition.
pub(super) fn oldest(shared: &Shared) -> BTreeMap<i64, i64> {
    let every_partition = shared.queues.iter().flat_map(|runtime| {
        let partitions = 0..runtime.queue.partitions().count();
        partitions.map(|partition| partition_id(runtime.queue.id(), partition))
    });
    every_partition.map(|id| (id, 0)).collect()
}

/// Deletes what everybody has passed, soon after the work. It remembers where it stopped.
/// That is true only until the server loses a commit. So it starts over after an error, after any
/// pass of this process has lost its connection, and from time to time.
pub(crate) async fn run_vacuum(shared: Arc<Shared>) {
    let tuning = &shared.profile.vacuum;
    let oldest = oldest(&shared);
    let (mut from, mut started_over) = (oldest.clone(), Instant::now());
    let (mut lost, mut failures) = (0, 0);
    let mut pace = Pace::new(tuning);
    while !shared.stopping() {
        let lost_before =
            std::mem::replace(&mut lost, shared.lost_connections.load(Ordering::Acquire));
        if lost != lost_before
            || started_over.elapsed() >= tuning.idle_interval * VACUUM_STARTS_OVER
        {
            (from, started_over) = (oldest.clone(), Instant::now());
        }
        let places: Vec<(i64, i64)> = from.iter().map(|(id, after)| (*id, *after)).collect();
        let retention = cursor::micros(shared.retention);
        let pass = cleanup::vacuum(
            &shared.kept,
            &places,
            tuning.batch_size,
            retention,
            shared.asynchronous,
        );
        let began = Instant::now();
        let Some(done) = shared.pass("vacuum", tuning, &mut failures, pass).await else {
            (from, started_over) = (oldest.clone(), Instant::now());
            continue;
        };
        // Many rows: more will come. Few that take long: an old transaction is open, and
        // nothing is won by haste.
        let many = done.iter().map(|d| d.rows).sum::<i64>() >= i64::from(tuning.batch_size);
        let rest = match many {
            true => SHORT_VACUUM_PAUSE,
            false => (began.elapsed() * 4).clamp(VACUUM_PAUSE, LONG_VACUUM_PAUSE),
        };
        for partition in &done {
            from.insert(partition.partition_id, partition.upto);
        }
        if done.iter().any(|d| d.rows >= i64::from(tuning.batch_size)) {
            shared.pause(pace.next()).await;
            continue;
        }
        pace = Pace::new(tuning);
        tokio::select! {
            () = shared.progress.notified() => shared.pause(rest).await,
            () = shared.pause(tuning.idle_interval) => {}
        }
    }
}
