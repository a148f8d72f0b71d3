//! The dispatcher of a consumer: runs a task for each partition that has work, and none for one
//! that has none.
//!
//! A wake-up starts the task of a partition, or makes the running task look again. The task takes
//! turns at the partition until there is nothing to do. It survives every error and every panic.

use crate::config::backoff;
use crate::database::errors::{ErrorClass, classify};
use crate::delivery::concurrent::{self, Signals};
use crate::delivery::consumer::Consumer;
use crate::delivery::processor::{Next, PartitionState, turn};
use crate::delivery::wakes::Wakes;
use crate::queue::PartitionSet;
use futures_util::FutureExt;
use sea_orm::DbErr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// A partition that another process holds is tried so often before it is left to the reconciler.
/// A hand-over takes milliseconds.
const BUSY_TRIES: u32 = 4;

/// The pause before the first of those tries is four times this; each pause is four times as long
/// as the one before.
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// The least pause after a turn that failed.
const LEAST_ERROR_PAUSE: Duration = Duration::from_millis(1);

/// Runs the partitions of one consumer.
pub(crate) struct Dispatcher {
    pub(crate) consumer: Consumer,
    partitions: Vec<DispatchedPartition>,
    tasks: TaskTracker,
    /// Notified when something was acknowledged: vacuum may have rows to delete.
    progress: Arc<Notify>,
}

#[derive(Default)]
struct DispatchedPartition {
    wakes: Wakes,
    /// What is remembered while no task runs.
    state: Mutex<Option<PartitionState>>,
}

impl Dispatcher {
    pub(crate) fn new(
        consumer: Consumer,
        partitions: u32,
        tasks: TaskTracker,
        progress: Arc<Notify>,
    ) -> Arc<Self> {
        let partitions = (0..partitions).map(|_| DispatchedPartition::default());
        Arc::new(Self {
            consumer,
            partitions: partitions.collect(),
            tasks,
            progress,
        })
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> u32 {
        u32::try_from(self.partitions.len()).unwrap_or(u32::MAX)
    }

    /// Makes a task look at the partition after this call. Starts one unless one is running.
    pub(crate) fn wake(self: &Arc<Self>, number: u32) {
        let Some(partition) = self.partitions.get(number as usize) else {
            return;
        };
        if self.consumer.is_paused() || self.consumer.stop.stopping.is_cancelled() {
            return;
        }
        if partition.wakes.wake() {
            let dispatcher = self.clone();
            self.tasks
                .spawn(async move { dispatcher.serve(number).await });
        }
    }

    /// Wakes some of the partitions.
    pub(crate) fn wake_all(self: &Arc<Self>, partitions: PartitionSet) {
        for number in (0..self.partitions()).filter(|number| partitions.contains(*number)) {
            self.wake(number);
        }
    }

    /// The task of a partition: takes turns until there is nothing to do.
    async fn serve(self: Arc<Self>, number: u32) {
        let partition = &self.partitions[number as usize];
        let remembered = partition.lock().take();
        let mut state = remembered.unwrap_or_else(|| self.new_state());
        let mut waits = TurnWaits::default();
        loop {
            match self.run_once(number, &mut state).await {
                Ok(next) => {
                    self.progress.notify_one();
                    match waits.after(&next) {
                        AfterTurn::Again => {}
                        AfterTurn::Pause(pause) => self.pause(pause).await,
                        AfterTurn::Rest => {
                            if self.rest(partition, &mut state) {
                                return;
                            }
                        }
                    }
                }
                Err(least) => {
                    let tuning = &self.consumer.tuning;
                    let doublings = waits.after_error();
                    let pause = backoff(tuning.retry_base, tuning.retry_max, doublings, true);
                    // While stopping too: what is unsaved or owed is worth a few tries.
                    tokio::select! {
                        () = tokio::time::sleep(pause.max(least)) => {}
                        () = self.consumer.stop.stopped.cancelled() => {}
                    }
                }
            }
            let stopping = self.consumer.stop.stopping.is_cancelled();
            let saved = state.unsaved.is_none() && !self.consumer.owes(number);
            if (stopping && saved) || self.consumer.stop.stopped.is_cancelled() {
                return;
            }
            if self.consumer.is_paused() && saved && self.rest(partition, &mut state) {
                return;
            }
        }
    }

    /// Takes a turn, and survives whatever it does. The error is the least pause before the next.
    async fn run_once(&self, number: u32, state: &mut PartitionState) -> Result<Next, Duration> {
        let consumer = &self.consumer;
        let wakes = &self.partitions[number as usize].wakes;
        let work = async {
            if consumer.concurrency > 1 {
                let signals = Signals {
                    woken: &wakes.woken,
                    progress: &self.progress,
                    leave: false,
                };
                return concurrent::turn(consumer, number, signals).await;
            }
            // The permit comes before the claim, so that no lease runs out while the task waits.
            let _permit = consumer.permits.acquire().await;
            turn(consumer, number, state, Some(wakes)).await
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(Ok(next)) => Ok(next),
            Ok(Err(error)) => {
                self.log_error(number, &error);
                Err(LEAST_ERROR_PAUSE)
            }
            Err(_) => {
                tracing::error!(
                    queue = &*consumer.queue,
                    partition = number,
                    consumer = consumer.name,
                    "a processor panicked; it will be started again"
                );
                *state = self.new_state();
                Err(consumer.tuning.retry_base)
            }
        }
    }

    fn log_error(&self, partition: u32, error: &DbErr) {
        let (queue, consumer) = (&*self.consumer.queue, &self.consumer.name);
        if classify(error) == ErrorClass::Race {
            tracing::debug!(queue, partition, consumer, %error, "lost a race");
        } else {
            tracing::warn!(
                queue, partition, consumer, %error,
                "a processor's pass failed; it will be tried again"
            );
        }
    }

    fn new_state(&self) -> PartitionState {
        PartitionState::new(self.consumer.tuning.batch_size)
    }

    /// Ends the task, unless the partition was woken meanwhile. Returns whether it ends.
    fn rest(&self, partition: &DispatchedPartition, state: &mut PartitionState) -> bool {
        // The state is stored before another task can ask for it.
        let remembered = std::mem::replace(state, self.new_state());
        *partition.lock() = Some(remembered);
        if partition.wakes.rest() {
            return true;
        }
        if let Some(remembered) = partition.lock().take() {
            *state = remembered;
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

impl DispatchedPartition {
    fn lock(&self) -> MutexGuard<'_, Option<PartitionState>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a task does after a turn.
#[derive(Debug, PartialEq, Eq)]
enum AfterTurn {
    /// Takes the next turn at once.
    Again,
    /// Pauses before the next turn.
    Pause(Duration),
    /// Ends, unless the partition was woken meanwhile.
    Rest,
}

/// How long a task waits between two turns.
#[derive(Default)]
struct TurnWaits {
    /// Turns that found another process at work, since the last that did not.
    busy: u32,
    /// Turns in a row that failed.
    errors: u32,
}

impl TurnWaits {
    fn after(&mut self, next: &Next) -> AfterTurn {
        self.errors = 0;
        if *next == Next::Busy && self.busy < BUSY_TRIES {
            self.busy += 1;
            return AfterTurn::Pause(BUSY_PAUSE * (1 << (2 * self.busy)));
        }
        self.busy = 0;
        match next {
            Next::Busy | Next::Rest => AfterTurn::Rest,
            Next::Later(due_in) => AfterTurn::Pause(*due_in),
            Next::Again => AfterTurn::Again,
        }
    }

    /// Returns how often the first pause doubles.
    fn after_error(&mut self) -> u32 {
        self.errors += 1;
        self.errors - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn pause(millis: u64) -> AfterTurn {
        AfterTurn::Pause(Duration::from_millis(millis))
    }

    #[test]
    fn a_partition_that_another_process_holds_is_tried_four_times_and_then_left_alone() {
        let mut waits = TurnWaits::default();
        for _ in 0..2 {
            for millis in [8, 32, 128, 512] {
                assert_eq!(waits.after(&Next::Busy), pause(millis));
            }
            assert_eq!(waits.after(&Next::Busy), AfterTurn::Rest);
        }
    }

    #[test]
    fn a_turn_that_had_the_partition_makes_the_tries_begin_anew() {
        let mut waits = TurnWaits::default();
        let second = Duration::from_secs(1);
        let turns = [
            (Next::Again, AfterTurn::Again),
            (Next::Later(second), pause(1_000)),
            (Next::Rest, AfterTurn::Rest),
        ];
        for (next, after) in turns {
            assert_eq!(waits.after(&Next::Busy), pause(8));
            assert_eq!(waits.after(&next), after);
        }
    }

    #[test]
    fn the_pause_doubles_with_each_error_until_a_turn_succeeds() {
        let mut waits = TurnWaits::default();
        assert_eq!([(); 3].map(|()| waits.after_error()), [0, 1, 2]);
        waits.after(&Next::Again);
        assert_eq!(waits.after_error(), 0);
    }
}
