//! The listener hears on PostgreSQL, with LISTEN, what other processes have enqueued.
//!
//! It takes one connection for itself. Nothing depends on it: what it misses, the reconciler finds.

use super::notifier::CHANNEL;
use super::supervisor::ServiceContext;
use crate::config::backoff;
use sea_orm::SqlxError;
use sea_orm::sqlx::postgres::PgListener;
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
async fn listen(context: &ServiceContext) -> Result<(), SqlxError> {
    let pool = context.db.get_postgres_connection_pool();
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    loop {
        // Notifications from before this moment are lost, so poll every queue.
        for served in &context.queues {
            served.signal.send();
        }
        loop {
            let heard = tokio::select! {
                heard = listener.try_recv() => heard?,
                () = context.stop.stopping.cancelled() => return Ok(()),
            };
            // None: the connection was lost and is there again.
            let Some(heard) = heard else { break };
            let ids: Vec<i64> = heard.payload().split(',').flat_map(str::parse).collect();
            for served in &context.queues {
                if ids.contains(&served.queue.id()) {
                    served.signal.send();
                }
            }
        }
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
