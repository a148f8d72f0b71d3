//! Profiles: the tuning of all workers together.

use super::WorkerTuning;
use std::time::Duration;

/// Tuning of all workers together.
///
/// | profile | batches | polls for work of other processes every |
/// |---|---|---|
/// | `default` | 100 | 1.1 s |
/// | `low_latency` | 20 | 100 ms |
/// | `high_throughput` | 500 | 1.1 s |
/// | `relaxed` | 100 | 5 s |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxProfile {
    /// Tuning of the sequencers.
    pub sequencer: WorkerTuning,
    /// Tuning of the processors.
    pub processor: WorkerTuning,
    /// Tuning of vacuum.
    pub vacuum: WorkerTuning,
    /// Tuning of the reconciler. Its idle interval is how soon lost wake-ups are found.
    pub reconciler: WorkerTuning,
}

/// An idle process makes at most one statement a second, the five statements a minute of all other
/// services included.
const IDLE: Duration = Duration::from_millis(1_100);

impl Default for OutboxProfile {
    fn default() -> Self {
        Self::of(1_000, 100, IDLE)
    }
}

impl OutboxProfile {
    const fn of(sequencer: u32, processor: u32, idle: Duration) -> Self {
        Self {
            sequencer: WorkerTuning::of(sequencer, idle),
            processor: WorkerTuning::of(processor, idle),
            vacuum: WorkerTuning::of(2_000, Duration::from_secs(60)),
            reconciler: WorkerTuning::of(1, idle),
        }
    }

    /// Small batches, frequent polls.
    #[must_use]
    pub const fn low_latency() -> Self {
        Self::of(500, 20, Duration::from_millis(100))
    }

    /// Large batches.
    #[must_use]
    pub const fn high_throughput() -> Self {
        Self::of(2_000, 500, IDLE)
    }

    /// Rare polls and long pauses after failures, for work that can wait.
    #[must_use]
    pub fn relaxed() -> Self {
        let mut profile = Self::of(1_000, 100, Duration::from_secs(5));
        profile.processor.retry_base = Duration::from_millis(500);
        profile.processor.retry_max = Duration::from_secs(60);
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_are_valid_and_bad_tuning_is_said_in_full() {
        for profile in [
            OutboxProfile::default(),
            OutboxProfile::low_latency(),
            OutboxProfile::high_throughput(),
            OutboxProfile::relaxed(),
        ] {
            for tuning in [
                profile.sequencer,
                profile.processor,
                profile.vacuum,
                profile.reconciler,
            ] {
                assert_eq!(tuning.problems(), [""; 0]);
            }
        }
        let bad = WorkerTuning::of(0, Duration::ZERO)
            .min_interval(Duration::from_secs(2))
            .retry_base(Duration::from_secs(60))
            .degradation_threshold(0);
        assert_eq!(bad.problems().len(), 5);
    }
}
