//! Deletes dead letters that were settled long ago.

use super::supervisor::Shared;
use crate::config::Pace;
use crate::operate::dead_letter::DeadLetters;
use std::sync::Arc;
use std::time::Duration;

/// A part at a time as long as there is something; then rests as vacuum does.
pub(crate) async fn run_retention(shared: Arc<Shared>, retention: Duration) {
    let tuning = &shared.profile.vacuum;
    let letters = DeadLetters::new(shared.db.clone());
    let mut failures = 0;
    let mut pace = Pace::new(tuning);
    while !shared.stopping() {
        let pass = letters.cleanup_part(retention, tuning.batch_size);
        let Some(deleted) = shared
            .pass("the retention of dead letters", tuning, &mut failures, pass)
            .await
        else {
            continue;
        };
        if deleted > 0 {
            tracing::debug!(deleted, "deleted dead letters that were settled long ago");
        }
        if deleted < u64::from(tuning.batch_size) {
            pace = Pace::new(tuning);
            shared.pause(tuning.idle_interval).await;
        } else {
            shared.pause(pace.next()).await;
        }
    }
}
