//! The notifier tells other processes on PostgreSQL, with NOTIFY, what was enqueued in this one.
//!
//! It never sends inside a user's transaction: there NOTIFY takes a lock that serialises every
//! commit of the database. One notification names all queues that were signalled within a few
//! milliseconds. It may come before the commit, because signals do; the sequencer that hears it
//! polls again for a short while.

use super::supervisor::ServiceContext;
use crate::database::sql::list;
use crate::queue::QueueId;
use crate::queue::signal::{SignalledQueues, register_for_all_queues};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

pub(super) const CHANNEL: &str = "outbox";

/// The pause after a notification. Signals of that time share the next one.
const COALESCE: Duration = Duration::from_millis(3);

/// Queues in one notification: PostgreSQL refuses 8,000 bytes, and an id has up to 20
/// characters and a comma.
const QUEUES_AT_ONCE: usize = 300;

/// Starts notifier and listener, on PostgreSQL. Signals are noted from now on.
pub(crate) fn spawn(context: &Arc<ServiceContext>, tasks: &TaskTracker) {
    if context.db.get_database_backend() != DbBackend::Postgres {
        return;
    }
    let signalled = Arc::default();
    register_for_all_queues(&signalled);
    tasks.spawn(run(context.clone(), signalled));
    #[cfg(feature = "postgres")]
    if !context.queues.is_empty() {
        tasks.spawn(super::listener::run(context.clone()));
    }
}

/// Notifies after each signal, until the outbox stops. A notification that failed is not repeated:
/// the other processes find the messages with their next poll, and a notification that always fails
/// must not hold up the rest.
async fn run(context: Arc<ServiceContext>, signalled: Arc<SignalledQueues>) {
    let mut supervisor = context.supervisor("the notifier", &context.profile.reconciler);
    while !context.stopping() {
        tokio::select! {
            () = signalled.wait() => {}
            () = context.stop.stopping.cancelled() => return,
        }
        let ids: Vec<QueueId> = signalled.take().into_iter().collect();
        for part in ids.chunks(QUEUES_AT_ONCE) {
            supervisor.run(notify(&context.db, part)).await;
        }
        context.pause(COALESCE).await;
    }
}

/// Sends one notification.
async fn notify(db: &DatabaseConnection, ids: &[QueueId]) -> Result<(), DbErr> {
    let values = [CHANNEL.into(), list(ids.iter().copied()).into()];
    let backend = db.get_database_backend();
    let notify = Statement::from_sql_and_values(backend, "SELECT pg_notify($1, $2)", values);
    db.execute_raw(notify).await.map(drop)
}
