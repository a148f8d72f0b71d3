//! Decides when a message that failed is tried again.

use std::time::Duration;

/// The longest pause. Every engine can add it to its clock.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// How often and when a message that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After this many failed attempts a message becomes a dead letter. The same limit holds for
    /// attempts that never returned, because their process died.
    pub max_attempts: u32,
    /// The pause after the first failed attempt; it doubles.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
    /// Whether the pause is chosen at random between zero and its full length. Then messages that
    /// failed together are not all tried again at the same moment.
    pub jitter: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 10,
            base: Duration::from_secs(1),
            max: Duration::from_secs(300),
            jitter: true,
        }
    }
}

impl RetryPolicy {
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.max_attempts == 0 || i32::try_from(self.max_attempts).is_err() {
            problems.push(format!("max_attempts is {}", self.max_attempts));
        }
        if self.base > self.max {
            problems.push(format!(
                "the retry's base ({:?}) is above its max ({:?})",
                self.base, self.max
            ));
        }
        problems
    }

    /// The pause after so many failed attempts, at most a year.
    pub(crate) fn delay(&self, attempts: u32) -> Duration {
        let doublings = attempts.saturating_sub(1);
        let max = self.max.min(LONGEST_DELAY);
        backoff(self.base, max, doublings, self.jitter)
    }
}

/// min(max, base x 2^doublings), for any number of doublings.
pub(crate) fn backoff(base: Duration, max: Duration, doublings: u32, jitter: bool) -> Duration {
    let full = 2_u32
        .checked_pow(doublings)
        .and_then(|factor| base.checked_mul(factor))
        .map_or(max, |delay| delay.min(max));
    if jitter {
        full.mul_f64(fastrand::f64())
    } else {
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_for_any_number_of_failures() {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(300));
        let delays = [0, 1, 2, 8, 9, 31, 32, 70, 200, u32::MAX].map(|n| {
            let jittered = backoff(base, max, n, true);
            let full = backoff(base, max, n, false);
            assert!(jittered <= full);
            full.as_secs()
        });
        assert_eq!(delays, [1, 2, 4, 256, 300, 300, 300, 300, 300, 300]);
        backoff(Duration::MAX, Duration::MAX, u32::MAX, true);
        let endless = RetryPolicy {
            base: Duration::MAX,
            max: Duration::MAX,
            jitter: false,
            ..RetryPolicy::default()
        };
        assert_eq!(endless.delay(1), LONGEST_DELAY);
    }
}
