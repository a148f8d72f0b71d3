//! The notifier tells other processes on PostgreSQL, with NOTIFY, what was enqueued in this one.
//!
//! It never sends inside a user's transaction: there NOTIFY takes a lock that serialises every
//! commit of the database. One notification names all queues that were signalled within a few
//! milliseconds. It may come before the commit, because signals do; the sequencer that hears it
//! polls again for a short while.

use super::supervisor::ServiceContext;
use crate::database::notify::{QUEUES_AT_ONCE, can_notify, notify};
use crate::queue::QueueId;
use crate::queue::signal::{SignalledQueues, register_for_all_queues};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// The pause after a notification. Signals of that time share the next one.
const COALESCE: Duration = Duration::from_millis(3);

/// Starts notifier and listener, on PostgreSQL. Signals are noted from now on.
pub(crate) fn spawn(context: &Arc<ServiceContext>, tasks: &TaskTracker) {
    if !can_notify(&context.db) {
        return;
    }
    let signalled = Arc::default();
    register_for_all_queues(&signalled);
    tasks.spawn(run(context.clone(), signalled));
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
