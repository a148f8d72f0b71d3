//! Between processes on PostgreSQL: NOTIFY when something was enqueued here, LISTEN
//! for what was enqueued elsewhere.
//!
//! The notification is sent by a task of its own, never inside the business
//! transaction: there it would take a lock that serialises every commit of the
//! database. It says which queues, once for everything within a few
//! milliseconds. It may come before the commit; the listener's sequencer keeps
//! looking for a short while.

use super::supervisor::Shared;
use crate::database::sql::list;
use crate::queue::QueueId;
use crate::queue::signal::{Outgoing, register_outgoing};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

const CHANNEL: &str = "outbox";
const COALESCE: Duration = Duration::from_millis(3);

/// Queues in one notification: PostgreSQL refuses 8,000 bytes, and an id has up to 20
/// characters and a comma.
const QUEUES_AT_ONCE: usize = 300;

/// Starts both, on PostgreSQL.
pub(crate) fn spawn(shared: &Arc<Shared>, tasks: &TaskTracker) {
    if shared.db.get_database_backend() != DbBackend::Postgres {
        return;
    }
    let outgoing = Arc::default();
    register_outgoing(&outgoing);
    tasks.spawn(run_notifier(shared.clone(), outgoing));
    #[cfg(feature = "postgres")]
    if !shared.queues.is_empty() {
        tasks.spawn(run_listener(shared.clone()));
    }
}

/// Tells other processes what was enqueued in this one. What could not be told is not told again:
/// the others find it with their next poll, and a part that always fails must not hold up the rest.
async fn run_notifier(shared: Arc<Shared>, outgoing: Arc<Outgoing>) {
    let tuning = &shared.profile.reconciler;
    let mut failures = 0;
    while !shared.stopping() {
        tokio::select! {
            () = outgoing.marked() => {}
            () = shared.stop.stopping.cancelled() => return,
        }
        let ids: Vec<QueueId> = outgoing.take().into_iter().collect();
        for part in ids.chunks(QUEUES_AT_ONCE) {
            let sent = notify(&shared.db, part);
            shared
                .pass("the notifier", tuning, &mut failures, sent)
                .await;
        }
        shared.pause(COALESCE).await;
    }
}

async fn notify(db: &DatabaseConnection, ids: &[QueueId]) -> Result<(), DbErr> {
    let values = [CHANNEL.into(), list(ids.iter().copied()).into()];
    let backend = db.get_database_backend();
    let notify = Statement::from_sql_and_values(backend, "SELECT pg_notify($1, $2)", values);
    db.execute_raw(notify).await.map(drop)
}

/// Hears what was enqueued elsewhere, on a connection of its own.
#[cfg(feature = "postgres")]
async fn run_listener(shared: Arc<Shared>) {
    let tuning = &shared.profile.reconciler;
    let mut failures = 0;
    while !shared.stopping() {
        let began = std::time::Instant::now();
        if let Err(error) = listen(&shared).await {
            tracing::warn!(%error, "listening for notifications failed; it will be tried again");
        }
        // It worked for a while: the next failure is a new one.
        failures = if began.elapsed() > tuning.retry_max {
            0
        } else {
            failures + 1
        };
        let pause = crate::config::backoff(tuning.retry_base, tuning.retry_max, failures, true);
        shared.pause(pause).await;
    }
}

#[cfg(feature = "postgres")]
async fn listen(shared: &Shared) -> Result<(), sea_orm::SqlxError> {
    let pool = shared.db.get_postgres_connection_pool();
    let mut listener = sea_orm::sqlx::postgres::PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    loop {
        // Whatever was said while nobody listened.
        for runtime in &shared.queues {
            runtime.signal.mark();
        }
        loop {
            let heard = tokio::select! {
                heard = listener.try_recv() => heard?,
                () = shared.stop.stopping.cancelled() => return Ok(()),
            };
            // None: the connection was lost and is there again.
            let Some(heard) = heard else { break };
            let ids: Vec<i64> = heard.payload().split(',').flat_map(str::parse).collect();
            for runtime in &shared.queues {
                if ids.contains(&runtime.queue.id()) {
                    runtime.signal.mark();
                }
            }
        }
    }
}
