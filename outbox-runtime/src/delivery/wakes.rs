//! Whether a task works on a partition, and whether the partition was signalled meanwhile.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
/// Running, and signalled meanwhile.
const AGAIN: u8 = 2;

/// The signals to a partition. No signal is lost, and many signals are one.
#[derive(Default)]
pub(crate) struct Wakes {
    phase: AtomicU8,
    /// Wakes the task that works on the partition, if it waits.
    pub(crate) woken: Notify,
}

impl Wakes {
    /// Signals that the partition must be looked at after this call. True if no task works on it:
    /// then the caller must start one.
    pub(crate) fn wake(&self) -> bool {
        let update = |phase| Some(if phase == IDLE { RUNNING } else { AGAIN });
        let before = self
            .phase
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        self.woken.notify_one();
        before == Ok(IDLE)
    }

    /// Called before a look at the partition: that look answers every signal so far.
    pub(crate) fn heard(&self) {
        let _ = self
            .phase
            .compare_exchange(AGAIN, RUNNING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Waits for a signal that was not heard, but not for long.
    pub(crate) async fn wait(&self, longest: Duration) {
        let woken = async {
            while self.phase.load(Ordering::Acquire) != AGAIN {
                self.woken.notified().await;
            }
        };
        let _ = tokio::time::timeout(longest, woken).await;
    }

    /// The task leaves the partition, unless there was a signal meanwhile. True if it left.
    pub(crate) fn rest(&self) -> bool {
        let idle = self
            .phase
            .compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire);
        if idle.is_err() {
            self.phase.store(RUNNING, Ordering::Release);
        }
        idle.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_wake_up_asks_for_one_look_after_it() {
        let wakes = Wakes::default();
        assert!(wakes.wake(), "no task works on it");
        assert!(!wakes.wake(), "a task does");
        wakes.heard();
        assert!(wakes.rest(), "it was looked at since");
        assert!(wakes.wake());
        wakes.heard();
        assert!(!wakes.wake());
        wakes.wait(LONG).await;
        assert!(!wakes.rest(), "it was not looked at since");
        assert!(wakes.rest());
    }

    #[tokio::test]
    async fn one_that_was_heard_is_not_waited_for_twice() {
        let wakes = Wakes::default();
        wakes.wake();
        wakes.wake();
        wakes.heard();
        let (began, short) = (std::time::Instant::now(), Duration::from_millis(20));
        wakes.wait(short).await;
        assert!(began.elapsed() >= short);
    }
}
