//! Signals: wake-ups inside a process. Polling alone delivers everything; signals make it fast.
//!
//! `enqueue` sends a signal for its queue. Every outbox in the process that serves the queue hears
//! it. The signal is sent before the commit, because `enqueue` does not see the commit. So a
//! sequencer that finds nothing after a signal polls again for a short while.

use crate::queue::QueueId;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, Weak};
use tokio::sync::Notify;

/// Wakes the sequencer of one queue.
#[derive(Default)]
pub(crate) struct QueueSignal {
    sent: AtomicU64,
    thorough: AtomicBool,
    notify: Notify,
}

impl QueueSignal {
    /// Waits for the next signal. One that was sent since the last wait counts.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Tells the sequencer that there may be something to number.
    pub(crate) fn send(&self) {
        self.sent.fetch_add(1, Ordering::AcqRel);
        self.notify.notify_one();
    }

    /// Makes the next pass search also where it expects nothing.
    pub(crate) fn request_thorough_poll(&self) {
        self.thorough.store(true, Ordering::Release);
    }

    /// Whether a thorough poll was requested. Each request is returned once.
    pub(crate) fn take_thorough_request(&self) -> bool {
        self.thorough.swap(false, Ordering::AcqRel)
    }

    /// How many signals were sent so far. A transaction that sees the number rise may have
    /// enqueued.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }
}

/// Queues that were signalled in this process and of which other processes do not know yet.
#[derive(Default)]
pub(crate) struct SignalledQueues {
    ids: Mutex<BTreeSet<QueueId>>,
    notify: Notify,
}

impl SignalledQueues {
    /// Waits for the next signal of any queue. One that was sent since the last wait counts.
    pub(crate) async fn wait(&self) {
        self.notify.notified().await;
    }

    /// Takes the queues out. The caller tells the other processes.
    pub(crate) fn take(&self) -> BTreeSet<QueueId> {
        std::mem::take(&mut *self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, queue_id: QueueId) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.insert(queue_id);
        drop(ids);
        self.notify.notify_one();
    }
}

/// The receivers of signals. An outbox that is gone leaves dead references, which the next
/// registration removes.
#[derive(Default)]
struct Receivers {
    queues: HashMap<QueueId, Vec<Weak<QueueSignal>>>,
    all_queues: Vec<Weak<SignalledQueues>>,
}

impl Receivers {
    fn remove_dead(&mut self) {
        for signals in self.queues.values_mut() {
            signals.retain(|signal| signal.strong_count() > 0);
        }
        self.queues.retain(|_, signals| !signals.is_empty());
        self.all_queues.retain(|queues| queues.strong_count() > 0);
        let count = self.queues.len() + self.all_queues.len();
        RECEIVER_COUNT.store(count, Ordering::Release);
    }
}

static RECEIVERS: LazyLock<RwLock<Receivers>> = LazyLock::new(RwLock::default);
/// Lets a process that only produces skip the lock.
static RECEIVER_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Makes `enqueue` send its signals for a queue to `signal`.
pub(crate) fn register(queue_id: QueueId, signal: &Arc<QueueSignal>) {
    let mut receivers = RECEIVERS.write().unwrap_or_else(PoisonError::into_inner);
    let signals = receivers.queues.entry(queue_id).or_default();
    signals.push(Arc::downgrade(signal));
    receivers.remove_dead();
}

/// Makes `enqueue` note the queue of every signal in `queues`.
pub(crate) fn register_for_all_queues(queues: &Arc<SignalledQueues>) {
    let mut receivers = RECEIVERS.write().unwrap_or_else(PoisonError::into_inner);
    receivers.all_queues.push(Arc::downgrade(queues));
    receivers.remove_dead();
}

/// Sends a signal for a queue. `enqueue` calls it before the commit.
pub(crate) fn send(queue_id: QueueId) {
    if RECEIVER_COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let receivers = RECEIVERS.read().unwrap_or_else(PoisonError::into_inner);
    let signals = receivers.queues.get(&queue_id).into_iter().flatten();
    for signal in signals.filter_map(Weak::upgrade) {
        signal.send();
    }
    for queues in receivers.all_queues.iter().filter_map(Weak::upgrade) {
        queues.add(queue_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_sent_before_the_wait_counts_and_only_for_its_queue() {
        let (orders, payments) = (Arc::<QueueSignal>::default(), Arc::<QueueSignal>::default());
        let (first, second) = (QueueId::of("orders"), QueueId::of("payments"));
        register(first, &orders);
        register(second, &payments);
        send(first);
        orders.wait().await;
        assert_eq!((orders.sent(), payments.sent()), (1, 0));
        drop(orders);
        send(first);
    }
}
