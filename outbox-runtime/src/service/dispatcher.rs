//! A task per partition that has work, none for one that has not.

use crate::config::backoff;
use crate::database::errors::{ErrorClass, classify};
use crate::delivery::concurrent::{self, Signals};
use crate::delivery::consumer::Consumer;
use crate::delivery::processor::{Next, PartitionState, turn};
use crate::delivery::wakes::Wakes;
use crate::queue::PartitionSet;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// How often a partition that somebody else holds is tried before we leave it
/// to the reconciler: a hand-over takes milliseconds.
const BUSY_TRIES: u32 = 4;

/// The partitions of one consumer.
pub(crate) struct Dispatcher {
    pub(crate) consumer: Consumer,
    slots: Vec<Slot>,
    tasks: TaskTracker,
    /// Told when something was acknowledged: there may be rows to delete.
    progress: Arc<Notify>,
}

#[derive(Default)]
struct Slot {
    wakes: Wakes,
    state: Mutex<Option<PartitionState>>,
}

impl Dispatcher {
    pub(crate) fn new(
        consumer: Consumer,
        partitions: u32,
        tasks: TaskTracker,
        progress: Arc<Notify>,
    ) -> Arc<Self> {
        let slots = (0..partitions).map(|_| Slot::default()).collect();
        Arc::new(Self {
            consumer,
            slots,
            tasks,
            progress,
        })
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Sees to it that the partition is looked at after this call.
    pub(crate) fn wake(self: &Arc<Self>, partition: u32) {
        let Some(slot) = self.slots.get(partition as usize) else {
            return;
        };
        if self.consumer.is_paused() || self.consumer.stop.stopping.is_cancelled() {
            return;
        }
        if slot.wakes.wake() {
            let dispatcher = self.clone();
            self.tasks
                .spawn(async move { dispatcher.serve(partition).await });
        }
    }

    /// Wakes some of the partitions.
    pub(crate) fn wake_all(self: &Arc<Self>, partitions: PartitionSet) {
        for partition in (0..self.partitions()).filter(|number| partitions.contains(*number)) {
            self.wake(partition);
        }
    }

    async fn serve(self: Arc<Self>, partition: u32) {
        let slot = &self.slots[partition as usize];
        let kept = slot.lock().take();
        let mut state =
            kept.unwrap_or_else(|| PartitionState::new(self.consumer.tuning.batch_size));
        let (mut errors, mut busy) = (0, 0);
        loop {
            match self.one_turn(partition, &mut state).await {
                Ok(next) => {
                    errors = 0;
                    self.progress.notify_one();
                    match next {
                        Next::Busy if busy < BUSY_TRIES => {
                            busy += 1;
                            self.pause(Duration::from_millis(2 << (2 * busy))).await;
                        }
                        Next::Busy | Next::Rest => {
                            busy = 0;
                            if self.rest(slot, &mut state) {
                                return;
                            }
                        }
                        Next::Later(due_in) => {
                            busy = 0;
                            self.pause(due_in).await;
                        }
                        Next::Again => busy = 0,
                    }
                }
                Err(pause) => {
                    errors += 1;
                    let tuning = &self.consumer.tuning;
                    let longest = backoff(tuning.retry_base, tuning.retry_max, errors - 1, true);
                    // Also while stopping: what is unsaved is worth a few tries.
                    tokio::select! {
                        () = tokio::time::sleep(longest.max(pause)) => {}
                        () = self.consumer.stop.stopped.cancelled() => {}
                    }
                }
            }
            let stop = self.consumer.stop.stopping.is_cancelled();
            if (stop && state.unsaved.is_none()) || self.consumer.stop.stopped.is_cancelled() {
                return;
            }
            if self.consumer.is_paused() && state.unsaved.is_none() && self.rest(slot, &mut state) {
                return;
            }
        }
    }

    /// A turn that survives everything; an error is the least pause before the next.
    async fn one_turn(&self, partition: u32, state: &mut PartitionState) -> Result<Next, Duration> {
        let consumer = &self.consumer;
        let slot = &self.slots[partition as usize];
        let work = async {
            if consumer.concurrency > 1 {
                let signals = Signals {
                    woken: &slot.wakes.woken,
                    progress: &self.progress,
                    leave: false,
                };
                return concurrent::turn(consumer, partition, signals).await;
            }
            // Before the claim: no lease runs out while it waits here.
            let _permit = consumer.permits.acquire().await;
            turn(consumer, partition, state, Some(&slot.wakes)).await
        };
        let turned = AssertUnwindSafe(work).catch_unwind();
        match turned.await {
            Ok(Ok(next)) => Ok(next),
            Ok(Err(error)) => {
                let class = classify(&error);
                let (queue, name) = (&*consumer.queue, &consumer.name);
                if class == ErrorClass::Race {
                    tracing::debug!(queue, partition, consumer = name, %error, "lost a race");
                } else {
                    tracing::warn!(
                        queue, partition, consumer = name, %error,
                        "a processor's pass failed; it will be tried again"
                    );
                }
                Err(Duration::from_millis(1))
            }
            Err(_) => {
                tracing::error!(
                    queue = &*consumer.queue,
                    partition,
                    consumer = consumer.name,
                    "a processor panicked; it will be started again"
                );
                *state = PartitionState::new(consumer.tuning.batch_size);
                Err(consumer.tuning.retry_base)
            }
        }
    }

    /// Leaves the slot, unless it was woken meanwhile; says whether it did.
    fn rest(&self, slot: &Slot, state: &mut PartitionState) -> bool {
        let fresh = PartitionState::new(self.consumer.tuning.batch_size);
        // Back in its place before another task can look for it.
        let kept = std::mem::replace(state, fresh);
        *slot.lock() = Some(kept);
        if slot.wakes.rest() {
            return true;
        }
        if let Some(kept) = slot.lock().take() {
            *state = kept;
        }
        false
    }

    async fn pause(&self, duration: Duration) {
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = self.consumer.stop.stopping.cancelled() => {}
        }
    }
}

impl Slot {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PartitionState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
