//! The listener hears on PostgreSQL, with LISTEN, what other processes have enqueued.
//!
//! It takes one connection for itself. Nothing depends on it: what it misses, the reconciler finds.

use super::supervisor::ServiceContext;
use crate::config::backoff;
use crate::database::notify::{Heard, Listener};
use sea_orm::DbErr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Listens until the outbox stops, on one connection after the other.
pub(super) async fn run(context: Arc<ServiceContext>) {
    let tuning = &context.profile.reconciler;
    let mut failures = Failures::default();
    while !context.stopping() {
        let began = Instant::now();
        if let Err(error) = listen(&context).await {
            tracing::warn!(%error, "listening for notifications failed; it will be tried again");
        }
        let doublings = failures.after(began.elapsed(), tuning.retry_max);
        let pause = backoff(tuning.retry_base, tuning.retry_max, doublings, true);
        context.pause(pause).await;
    }
}

/// Listens on one connection. Returns when the outbox stops, or with the error that ended it.
async fn listen(context: &ServiceContext) -> Result<(), DbErr> {
    let mut listener = Listener::connect(&context.db).await?;
    // Notifications from before this moment are lost, so poll every queue.
    let mut heard = Heard::Reconnected;
    loop {
        for served in &context.queues {
            let enqueued = match &heard {
                Heard::Queues(queues) => queues.contains(&served.queue.queue_id()),
                Heard::Reconnected => true,
            };
            if enqueued {
                served.signal.send();
            }
        }
        heard = tokio::select! {
            heard = listener.hear() => heard?,
            () = context.stop.stopping.cancelled() => return Ok(()),
        };
    }
}

/// How often listening failed soon after it began, in a row.
#[derive(Default)]
struct Failures(u32);

impl Failures {
    /// Listening ended after so long; returns how often the first pause doubles. After a while
    /// without a failure the next failure is a new one.
    fn after(&mut self, lasted: Duration, retry_max: Duration) -> u32 {
        self.0 = if lasted > retry_max { 0 } else { self.0 + 1 };
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_with_each_failure_in_a_row_and_a_long_success_ends_the_row() {
        let (second, mut failures) = (Duration::from_secs(1), Failures::default());
        let doublings = [0, 1, 0, 2, 0].map(|lasted| failures.after(second * lasted, second));
        assert_eq!(doublings, [1, 2, 3, 0, 1]);
    }
}
