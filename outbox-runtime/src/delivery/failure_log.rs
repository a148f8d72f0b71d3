//! Which failed attempts are worth a warning.
//!
//! Where one message in ten fails once, a warning for each hides what matters. So a first
//! failure is no warning, a message that keeps failing is, and a consumer gives one warning
//! in ten seconds at most. Each says how many failures came without one since the last.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// From this attempt on a failure is worth a warning.
const ATTEMPTS: u32 = 3;
/// A consumer logs at most one warning in this time.
const EVERY: Duration = Duration::from_secs(10);

/// What a consumer has logged of its failures.
#[derive(Default)]
pub(crate) struct FailureLog(Mutex<LogState>);

#[derive(Default)]
struct LogState {
    warned_at: Option<Instant>,
    /// Failures since then, all without a warning.
    unwarned: u64,
}

impl FailureLog {
    /// Notes that the attempt of this number failed and is not the last. Says whether that
    /// is to be a warning: then, how many failures there were since the last one.
    pub(super) fn failed(&self, attempt: u32, max_attempts: u32, now: Instant) -> Option<u64> {
        let one_left = attempt.saturating_add(1) >= max_attempts;
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = said
            .warned_at
            .is_none_or(|at| now.saturating_duration_since(at) >= EVERY);
        if (attempt >= ATTEMPTS || one_left) && rested {
            said.warned_at = Some(now);
            return Some(std::mem::take(&mut said.unwarned));
        }
        said.unwarned += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_failure_or_the_last_but_one_is_a_warning() {
        let now = Instant::now();
        let warns = |attempt, max| FailureLog::default().failed(attempt, max, now).is_some();
        assert_eq!(
            [1, 2, 3, 4].map(|n| warns(n, 10)),
            [false, false, true, true]
        );
        assert_eq!([1, 2].map(|n| warns(n, 3)), [false, true]);
        assert!(warns(1, 2));
        assert!(warns(u32::MAX, u32::MAX));
    }

    #[test]
    fn a_warning_counts_what_came_without_one_since_the_last() {
        let (log, began) = (FailureLog::default(), Instant::now());
        let mut warnings = Vec::new();
        for second in 0..=25 {
            let now = began + Duration::from_secs(second);
            warnings.extend(log.failed(5, 10, now).map(|unwarned| (second, unwarned)));
        }
        assert_eq!(warnings, [(0, 0), (10, 9), (20, 9)]);
    }
}
