//! Vacuum: deletes what every consumer has passed.

use super::supervisor::Shared;
use crate::config::Pace;
use crate::database::{cleanup, cursor};
use crate::queue::PartitionId;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Acknowledged messages are deleted together with those of so long.
const VACUUM_PAUSE: Duration = Duration::from_millis(100);
const SHORT_VACUUM_PAUSE: Duration = Duration::from_millis(10);
const LONG_VACUUM_PAUSE: Duration = Duration::from_millis(500);

/// After so many of its idle intervals vacuum begins at the oldest rows again: a server that
/// crashed may have brought back what it had deleted, and nobody says so.
const VACUUM_STARTS_OVER: u32 = 5;

/// Where vacuum starts, in every partition.
pub(crate) fn oldest(shared: &Shared) -> BTreeMap<PartitionId, i64> {
    let every_partition = shared.queues.iter().flat_map(|runtime| {
        let partitions = 0..runtime.queue.partitions().count();
        partitions.map(|partition| runtime.queue.queue_id().partition(partition))
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
        let places: Vec<(PartitionId, i64)> =
            from.iter().map(|(id, after)| (*id, *after)).collect();
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
