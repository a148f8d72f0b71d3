//! Whether somebody works on a partition, and whether it was woken meanwhile.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

const IDLE: u8 = 0;
const RUNNING: u8 = 1;
/// Running, and woken meanwhile.
const AGAIN: u8 = 2;

/// The wake-ups of a partition: none is lost, and many are one.
#[derive(Default)]
pub(crate) struct Wakes {
    phase: AtomicU8,
    /// For who works on it for long.
    pub(crate) woken: Notify,
}

impl Wakes {
    /// Sees to it that the partition is looked at after this call; true if nobody
    /// works on it, so that the caller must begin.
    pub(crate) fn wake(&self) -> bool {
        let update = |phase| Some(if phase == IDLE { RUNNING } else { AGAIN });
        let before = self
            .phase
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
        self.woken.notify_one();
        before == Ok(IDLE)
    }

    /// Before a look that sees everything that was there: no wake-up so far asks for
    /// another.
    pub(crate) fn heard(&self) {
        let _ = self
            .phase
            .compare_exchange(AGAIN, RUNNING, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Waits for a wake-up that was not heard, but not for long.
    pub(crate) async fn wait(&self, longest: Duration) {
        let woken = async {
            while self.phase.load(Ordering::Acquire) != AGAIN {
                self.woken.notified().await;
            }
        };
        let _ = tokio::time::timeout(longest, woken).await;
    }

    /// Leaves the partition, unless it was woken meanwhile; says whether it did.
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
        assert!(wakes.wake(), "nobody works on it");
        assert!(!wakes.wake(), "somebody does");
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
