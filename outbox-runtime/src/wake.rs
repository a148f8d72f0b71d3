//! Signals inside a process: polling is the truth, these make it fast.
//!
//! `enqueue` marks its queue in a process-wide table; every running outbox that
//! serves the queue is woken. A mark is made before the commit, so a sequencer that
//! finds nothing keeps looking for a short while before it rests again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock, Weak};
use tokio::sync::Notify;

/// Wakes one queue's sequencer.
#[derive(Default)]
pub(crate) struct QueueSignal {
    /// Something was enqueued that no pass has found yet.
    dirty: AtomicBool,
    notify: Notify,
}

impl QueueSignal {
    /// Waits for the next mark; one made meanwhile counts.
    pub(crate) async fn marked(&self) {
        self.notify.notified().await;
    }

    /// Says that there is something to look for.
    pub(crate) fn mark(&self) {
        self.dirty.store(true, Ordering::Release);
        self.notify.notify_one();
    }

    /// A commit happened: if something was enqueued, look now.
    pub(crate) fn committed(&self) {
        if self.dirty.load(Ordering::Acquire) {
            self.notify.notify_one();
        }
    }

    /// A pass found what there was.
    pub(crate) fn found(&self) {
        self.dirty.store(false, Ordering::Release);
    }
}

type Table = HashMap<i64, Vec<Weak<QueueSignal>>>;

static QUEUES: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);
/// So that a process that only produces does not even take the lock.
static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Makes a queue's signal known to `enqueue`.
pub(crate) fn register(queue_id: i64, signal: &Arc<QueueSignal>) {
    let mut queues = QUEUES.write().unwrap_or_else(PoisonError::into_inner);
    for signals in queues.values_mut() {
        signals.retain(|signal| signal.strong_count() > 0);
    }
    queues.retain(|_, signals| !signals.is_empty());
    queues
        .entry(queue_id)
        .or_default()
        .push(Arc::downgrade(signal));
    REGISTERED.store(queues.len(), Ordering::Release);
}

/// Called by `enqueue`, before the commit.
pub(crate) fn mark(queue_id: i64) {
    if REGISTERED.load(Ordering::Acquire) == 0 {
        return;
    }
    let queues = QUEUES.read().unwrap_or_else(PoisonError::into_inner);
    for signal in queues.get(&queue_id).into_iter().flatten() {
        if let Some(signal) = signal.upgrade() {
            signal.mark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mark_made_before_the_wait_counts_and_only_for_its_queue() {
        let (orders, payments) = (Arc::default(), Arc::default());
        register(64, &orders);
        register(128, &payments);
        mark(64);
        orders.marked().await;
        assert!(!payments.dirty.load(Ordering::Acquire));
        drop(orders);
        mark(64);
    }
}
