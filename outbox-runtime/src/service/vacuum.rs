//! Vacuum: deletes the messages that every consumer has passed.
//!
//! It remembers up to where it has deleted, so that it need not read deleted rows again. That
//! belief is true only until the server loses a commit. So vacuum starts over at the oldest rows
//! after an error, after any pass of this process lost its connection, and from time to time.

use super::supervisor::ServiceContext;
use crate::config::{Pace, WorkerTuning};
use crate::database::{cursor, vacuum};
use crate::queue::PartitionId;
use sea_orm::DbErr;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After an acknowledgement vacuum rests four times as long as its last pass took, within these
/// limits. So one pass deletes for many acknowledgements.
const LEAST_REST: Duration = Duration::from_millis(100);
const MOST_REST: Duration = Duration::from_millis(500);

/// The rest instead after a pass that deleted a batch or more, all partitions together.
const BUSY_REST: Duration = Duration::from_millis(10);

/// Vacuum starts over after so many of its idle intervals. A server that crashed may have brought
/// back deleted rows, and nothing tells this process.
const START_OVER_INTERVALS: u32 = 5;

/// Deletes delivered messages until the outbox stops.
pub(crate) async fn run(context: Arc<ServiceContext>) {
    let tuning = &context.profile.vacuum;
    let mut supervisor = context.supervisor("vacuum", tuning);
    let mut deleted_up_to = DeletedUpTo::nothing(&context);
    let mut rests = Rests::new(tuning, Instant::now());
    while !context.stopping() {
        let lost_connections = context.lost_connections.load(Ordering::Acquire);
        let began = Instant::now();
        if rests.starts_over(lost_connections, began) {
            deleted_up_to = DeletedUpTo::nothing(&context);
        }
        let pass = run_once(&context, &mut deleted_up_to);
        let Some(done) = supervisor.run(pass).await else {
            deleted_up_to = DeletedUpTo::nothing(&context);
            rests.failed(Instant::now());
            continue;
        };
        match rests.after(&done, began.elapsed()) {
            Rest::Pause(pause) => context.pause(pause).await,
            Rest::AfterProgress(rest) => tokio::select! {
                () = context.progress.notified() => context.pause(rest).await,
                () = context.pause(tuning.idle_interval) => {}
            },
        }
    }
}

/// Up to which sequence number vacuum has deleted, in every partition.
pub(crate) struct DeletedUpTo(BTreeMap<PartitionId, i64>);

impl DeletedUpTo {
    /// Makes vacuum start at the oldest rows.
    pub(crate) fn nothing(context: &ServiceContext) -> Self {
        let partitions = context.queues.iter().flat_map(|served| {
            let numbers = 0..served.queue.partitions().count();
            numbers.map(|number| served.queue.queue_id().partition(number))
        });
        Self(partitions.map(|id| (id, 0)).collect())
    }
}

/// What a pass deleted.
pub(crate) struct Deleted {
    /// Rows of all partitions together.
    pub(crate) rows: i64,
    /// Whether some partition had a full batch, so that it may have more.
    pub(crate) full_batch: bool,
}

/// Deletes up to a batch of each partition.
pub(crate) async fn run_once(
    context: &ServiceContext,
    deleted_up_to: &mut DeletedUpTo,
) -> Result<Deleted, DbErr> {
    let batch_size = context.profile.vacuum.batch_size;
    let from: Vec<(PartitionId, i64)> = deleted_up_to.0.iter().map(|(id, at)| (*id, *at)).collect();
    let done = vacuum::vacuum(
        &context.connections,
        &from,
        batch_size,
        cursor::micros(context.retention),
        context.asynchronous_commit,
    )
    .await?;
    for partition in &done {
        let (id, up_to) = (partition.partition_id, partition.upto);
        deleted_up_to.0.insert(id, up_to);
    }
    let mut rows = done.iter().map(|partition| partition.rows);
    Ok(Deleted {
        rows: rows.clone().sum(),
        full_batch: rows.any(|rows| rows >= i64::from(batch_size)),
    })
}

/// What vacuum does between two passes.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    /// Pauses as the profile says: there may be more to delete.
    Pause(Duration),
    /// Waits for the idle interval. An acknowledgement ends that, and then this rest follows.
    AfterProgress(Duration),
}

/// How long vacuum rests, and when it starts over.
struct Rests<'a> {
    tuning: &'a WorkerTuning,
    pace: Pace,
    started_over: Instant,
    /// How many connections had been lost when the last pass began.
    lost_connections: u64,
}

impl<'a> Rests<'a> {
    fn new(tuning: &'a WorkerTuning, now: Instant) -> Self {
        Self {
            tuning,
            pace: Pace::new(tuning),
            started_over: now,
            lost_connections: 0,
        }
    }

    /// Whether the pass that begins now starts over. `lost_connections` have been lost so far.
    fn starts_over(&mut self, lost_connections: u64, now: Instant) -> bool {
        let lost_before = std::mem::replace(&mut self.lost_connections, lost_connections);
        let every = self.tuning.idle_interval * START_OVER_INTERVALS;
        let due = now.duration_since(self.started_over) >= every;
        let starts_over = lost_before != lost_connections || due;
        if starts_over {
            self.started_over = now;
        }
        starts_over
    }

    /// A pass failed, so the next one starts over.
    fn failed(&mut self, now: Instant) {
        self.started_over = now;
    }

    /// The rest after a pass that took so long.
    fn after(&mut self, deleted: &Deleted, took: Duration) -> Rest {
        if deleted.full_batch {
            return Rest::Pause(self.pace.next());
        }
        self.pace = Pace::new(self.tuning);
        // Many rows: more will come. Few rows in a long pass: an old transaction is open, and
        // another pass soon would gain nothing.
        Rest::AfterProgress(if deleted.rows >= i64::from(self.tuning.batch_size) {
            BUSY_REST
        } else {
            (took * 4).clamp(LEAST_REST, MOST_REST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OutboxProfile;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn tuning() -> WorkerTuning {
        let tuning = OutboxProfile::default().vacuum;
        let tuning = tuning.batch_size(10).idle_interval(ms(1_000));
        tuning.active_interval(ms(7)).ramp_step(ms(4))
    }

    fn deleted(rows: i64, full_batch: bool) -> Deleted {
        Deleted { rows, full_batch }
    }

    #[test]
    fn after_few_rows_it_rests_four_times_as_long_as_the_pass_took_within_limits() {
        let tuning = tuning();
        let mut rests = Rests::new(&tuning, Instant::now());
        for (took, rest) in [(0, 100), (25, 100), (50, 200), (125, 500), (60_000, 500)] {
            let after = rests.after(&deleted(9, false), ms(took));
            assert_eq!(after, Rest::AfterProgress(ms(rest)), "{took}");
        }
        // Many partitions together had a batch, none had one alone.
        let after = rests.after(&deleted(10, false), ms(50));
        assert_eq!(after, Rest::AfterProgress(ms(10)));
    }

    #[test]
    fn after_a_full_batch_it_goes_on_at_the_pace_of_the_profile() {
        let tuning = tuning();
        let mut rests = Rests::new(&tuning, Instant::now());
        let full = deleted(10, true);
        for millis in [7, 3, 0] {
            assert_eq!(rests.after(&full, ms(90)), Rest::Pause(ms(millis)));
        }
        rests.after(&deleted(0, false), ms(90));
        assert_eq!(rests.after(&full, ms(90)), Rest::Pause(ms(7)));
    }

    #[test]
    fn it_starts_over_after_a_lost_connection_and_every_five_idle_intervals() {
        let (tuning, start) = (tuning(), Instant::now());
        let mut rests = Rests::new(&tuning, start);
        assert!(!rests.starts_over(0, start + ms(4_999)));
        assert!(rests.starts_over(0, start + ms(5_000)));
        assert!(!rests.starts_over(0, start + ms(9_999)));
        assert!(rests.starts_over(2, start + ms(9_999)));
        assert!(!rests.starts_over(2, start + ms(10_000)));
        // A failure starts over by itself, so the interval begins anew.
        rests.failed(start + ms(12_000));
        assert!(!rests.starts_over(2, start + ms(16_999)));
        assert!(rests.starts_over(2, start + ms(17_000)));
    }
}
