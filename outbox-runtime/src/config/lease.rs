//! How long a claim is valid.

use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long a claim of messages is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// After this long the claim counts as died, and another process may take over.
    pub duration: Duration,
    /// The handler's token is cancelled this long before the end of the lease. When half of the
    /// headroom is left, the handler is dropped. The rest is for writing down what happened.
    pub headroom: Duration,
}

impl Default for LeaseConfig {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(30),
            headroom: Duration::from_secs(2),
        }
    }
}

impl LeaseConfig {
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.headroom >= self.duration || self.headroom.is_zero() {
            problems.push(format!(
                "the lease's headroom ({:?}) must be above 0 and less than its duration ({:?})",
                self.headroom, self.duration
            ));
        }
        if self.duration > DAY {
            problems.push(format!(
                "the lease ({:?}) is longer than a day",
                self.duration
            ));
        }
        problems
    }
}
