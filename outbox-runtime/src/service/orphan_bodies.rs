//! Orphan bodies: deletes bodies without a message, which a failed producer has left behind.

use super::supervisor::ServiceContext;
use crate::database::orphan_bodies::{delete_orphans, may_exist};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The rest between one round through all old bodies and the next.
const BETWEEN_ROUNDS: Duration = Duration::from_secs(3600);

/// The rest between two passes of a round is so many times as long as a pass took, because a pass
/// reads two tables. It is at least this long.
const REST_FACTOR: u32 = 100;
const LEAST_REST: Duration = Duration::from_secs(1);

/// Goes through all old bodies, a pass at a time. Not on PostgreSQL, which has no orphans.
pub(crate) async fn run(context: Arc<ServiceContext>) {
    if !may_exist(&context.db) {
        return;
    }
    let mut supervisor = context.supervisor("the search for orphans", &context.profile.vacuum);
    // The id of the last body that this round has looked at.
    let mut after = 0;
    while !context.stopping() {
        let began = Instant::now();
        let pass = delete_orphans(&context.db, after);
        let mut rest = BETWEEN_ROUNDS;
        if let Some(done) = supervisor.run(pass).await {
            if done.deleted > 0 {
                let deleted = done.deleted;
                tracing::info!(deleted, "deleted bodies that no message refers to");
            }
            if done.next.is_some() {
                rest = rest_within_round(began.elapsed());
            }
            after = done.next.unwrap_or(0);
        }
        context.pause(rest).await;
    }
}

/// The rest after a pass that did not end the round.
fn rest_within_round(took: Duration) -> Duration {
    (took * REST_FACTOR).clamp(LEAST_REST, BETWEEN_ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_a_hundredth_of_the_time_and_rests_between_a_second_and_an_hour() {
        for (took_ms, rest_s) in [(0, 1), (10, 1), (50, 5), (36_000, 3_600), (90_000, 3_600)] {
            let rest = rest_within_round(Duration::from_millis(took_ms));
            assert_eq!(rest, Duration::from_secs(rest_s), "{took_ms}");
        }
    }
}
