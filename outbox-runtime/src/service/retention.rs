//! The retention of dead letters: deletes those that were settled long ago.

use super::supervisor::ServiceContext;
use crate::config::{Pace, WorkerTuning};
use crate::operate::dead_letter::DeadLetters;
use std::sync::Arc;
use std::time::Duration;

/// Deletes dead letters that were settled at least `retention` ago, until the outbox stops. It has
/// the tuning of vacuum.
pub(crate) async fn run(context: Arc<ServiceContext>, retention: Duration) {
    let tuning = &context.profile.vacuum;
    let mut supervisor = context.supervisor("the retention of dead letters", tuning);
    let letters = DeadLetters::new(context.db.clone());
    let mut rests = Rests::new(tuning);
    while !context.stopping() {
        let pass = letters.cleanup_part(retention, tuning.batch_size);
        let Some(deleted) = supervisor.run(pass).await else {
            continue;
        };
        if deleted > 0 {
            tracing::debug!(deleted, "deleted dead letters that were settled long ago");
        }
        context.pause(rests.after(deleted)).await;
    }
}

/// How long the retention rests: shortly while batches are full, else for the idle interval.
struct Rests<'a> {
    tuning: &'a WorkerTuning,
    pace: Pace,
}

impl<'a> Rests<'a> {
    fn new(tuning: &'a WorkerTuning) -> Self {
        Self {
            tuning,
            pace: Pace::new(tuning),
        }
    }

    fn after(&mut self, deleted: u64) -> Duration {
        if deleted < u64::from(self.tuning.batch_size) {
            self.pace = Pace::new(self.tuning);
            self.tuning.idle_interval
        } else {
            self.pace.next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OutboxProfile;

    #[test]
    fn it_goes_on_while_batches_are_full_and_rests_when_one_is_not() {
        let ms = Duration::from_millis;
        let tuning = OutboxProfile::default().vacuum;
        let tuning = tuning.batch_size(10).idle_interval(ms(1_000));
        let tuning = tuning.active_interval(ms(7)).ramp_step(ms(4));
        let mut rests = Rests::new(&tuning);
        let paused = [10, 10, 9, 10].map(|deleted| rests.after(deleted));
        assert_eq!(paused, [7, 3, 1_000, 7].map(ms));
    }
}
