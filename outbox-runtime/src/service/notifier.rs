//! Between processes on PostgreSQL: NOTIFY when something was enqueued here, LISTEN
//! for what was enqueued elsewhere.
//!
//! The notification is sent by a task of its own, never inside the business
//! transaction: there it would take a lock that serialises every commit of the
//! database. It says which queues, once for everything within a few
//! milliseconds. It may come before the commit; the listener's sequencer keeps
//! looking for a short while.

use super::supervisor::Shared;
use crate::database::notify::{Heard, Listener, QUEUES_AT_ONCE, can_notify, notify};
use crate::queue::QueueId;
use crate::queue::signal::{Outgoing, register_outgoing};
use sea_orm::DbErr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

const COALESCE: Duration = Duration::from_millis(3);

/// Starts both, on PostgreSQL.
pub(crate) fn spawn(shared: &Arc<Shared>, tasks: &TaskTracker) {
    if !can_notify(&shared.db) {
        return;
    }
    let outgoing = Arc::default();
    register_outgoing(&outgoing);
    tasks.spawn(run_notifier(shared.clone(), outgoing));
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

/// Hears what was enqueued elsewhere, on a connection of its own.
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

async fn listen(shared: &Shared) -> Result<(), DbErr> {
    let mut listener = Listener::connect(&shared.db).await?;
    let mut heard = Heard::Reconnected;
    loop {
        for runtime in &shared.queues {
            let concerned = match &heard {
                // Whatever was said while nobody listened.
                Heard::Reconnected => true,
                Heard::Queues(ids) => ids.contains(&runtime.queue.queue_id()),
            };
            if concerned {
                runtime.signal.mark();
            }
        }
        heard = tokio::select! {
            heard = listener.hear() => heard?,
            () = shared.stop.stopping.cancelled() => return Ok(()),
        };
    }
}
