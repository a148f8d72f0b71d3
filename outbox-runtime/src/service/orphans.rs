//! Now and then: bodies that nobody refers to are deleted.

use super::supervisor::Shared;
use crate::database::orphans::{delete_orphans, may_exist};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between one round through all old bodies and the next.
const ROUND_EVERY: Duration = Duration::from_secs(3600);

/// Between the passes of a round, at least; and so many times as long as a pass takes, since
/// each reads two tables.
const LEAST_REST: Duration = Duration::from_secs(1);
const REST_FACTOR: u32 = 100;

/// Goes through all old bodies, a pass at a time. Not on PostgreSQL, which has no orphans.
pub(crate) async fn run_orphans(shared: Arc<Shared>) {
    if !may_exist(&shared.db) {
        return;
    }
    let tuning = &shared.profile.vacuum;
    let (mut failures, mut after) = (0, 0);
    while !shared.stopping() {
        let began = Instant::now();
        let pass = delete_orphans(&shared.db, after);
        let pass = shared.pass("the search for orphans", tuning, &mut failures, pass);
        let mut rest = ROUND_EVERY;
        if let Some(done) = pass.await {
            if done.deleted > 0 {
                let deleted = done.deleted;
                tracing::info!(deleted, "deleted bodies that no message refers to");
            }
            if done.next.is_some() {
                rest = (began.elapsed() * REST_FACTOR).clamp(LEAST_REST, ROUND_EVERY);
            }
            after = done.next.unwrap_or(0);
        }
        shared.pause(rest).await;
    }
}
