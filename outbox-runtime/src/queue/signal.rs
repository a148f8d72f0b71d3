//! Signals inside a process: polling is the truth, these make it fast.
//!
//! `enqueue` marks its queue in a process-wide table; every running outbox that
//! serves the queue is woken. A mark is made before the commit, so a sequencer that
//! finds nothing keeps looking for a short while before it rests again.

use crate::queue::QueueId;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use tokio::sync::Notify;

/// Wakes one queue's sequencer.
#[derive(Default)]
pub(crate) struct QueueSignal {
    marks: AtomicU64,
    thorough: AtomicBool,
    notify: Notify,
}

impl QueueSignal {
    /// Waits for the next mark; one made meanwhile counts.
    pub(crate) async fn marked(&self) {
        self.notify.notified().await;
    }

    /// Says that there is something to look for.
    pub(crate) fn mark(&self) {
        self.marks.fetch_add(1, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Lets the next pass look also where it does not expect anything.
    pub(crate) fn look_everywhere(&self) {
        self.thorough.store(true, Ordering::Release);
    }

    /// Whether to look everywhere, once.
    pub(crate) fn take_thorough(&self) -> bool {
        self.thorough.swap(false, Ordering::AcqRel)
    }

    /// How often it was marked: whether a transaction may have enqueued.
    pub(crate) fn marks(&self) -> u64 {
        self.marks.load(Ordering::Acquire)
    }
}

/// Queues that were marked and not yet told to other processes.
#[derive(Default)]
pub(crate) struct Outgoing {
    ids: Mutex<BTreeSet<QueueId>>,
    notify: Notify,
}

impl Outgoing {
    /// Waits for the next mark; one made meanwhile counts.
    pub(crate) async fn marked(&self) {
        self.notify.notified().await;
    }

    /// The marked queues, which are now told.
    pub(crate) fn take(&self) -> BTreeSet<QueueId> {
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, marked: impl IntoIterator<Item = QueueId>) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.extend(marked);
        drop(ids);
        self.notify.notify_one();
    }
}

#[derive(Default)]
struct Table {
    queues: HashMap<QueueId, Vec<Weak<QueueSignal>>>,
    outgoing: Vec<Weak<Outgoing>>,
}

impl Table {
    fn drop_dead(&mut self) {
        for signals in self.queues.values_mut() {
            signals.retain(|signal| signal.strong_count() > 0);
        }
        self.queues.retain(|_, signals| !signals.is_empty());
        self.outgoing.retain(|outgoing| outgoing.strong_count() > 0);
        let registered = self.queues.len() + self.outgoing.len();
        REGISTERED.store(registered, Ordering::Release);
    }
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);
/// So that a process that only produces does not even take the lock.
static REGISTERED: AtomicUsize = AtomicUsize::new(0);

/// Makes a queue's signal known to `enqueue`.
pub(crate) fn register(queue_id: QueueId, signal: &Arc<QueueSignal>) {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let signals = table.queues.entry(queue_id).or_default();
    signals.push(Arc::downgrade(signal));
    table.drop_dead();
}

/// Makes `enqueue` tell of every queue.
pub(crate) fn register_outgoing(outgoing: &Arc<Outgoing>) {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.outgoing.push(Arc::downgrade(outgoing));
    table.drop_dead();
}

/// Called by `enqueue`, before the commit.
pub(crate) fn mark(queue_id: QueueId) {
    if REGISTERED.load(Ordering::Acquire) == 0 {
        return;
    }
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let signals = table.queues.get(&queue_id).into_iter().flatten();
    for signal in signals.filter_map(Weak::upgrade) {
        signal.mark();
    }
    for outgoing in table.outgoing.iter().filter_map(Weak::upgrade) {
        outgoing.add([queue_id]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mark_made_before_the_wait_counts_and_only_for_its_queue() {
        let (orders, payments) = (Arc::<QueueSignal>::default(), Arc::<QueueSignal>::default());
        let (first, second) = (QueueId::of("orders"), QueueId::of("payments"));
        register(first, &orders);
        register(second, &payments);
        mark(first);
        orders.marked().await;
        assert_eq!((orders.marks(), payments.marks()), (1, 0));
        drop(orders);
        mark(first);
    }
}
