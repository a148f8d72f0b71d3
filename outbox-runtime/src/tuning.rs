//! How eagerly workers work, and the profiles that bundle it.

use std::time::Duration;

/// How a kind of worker paces itself. Setters consume and return it; nothing is
/// checked before `start()`, which reports every problem.
///
/// Sequencers and processors wait for signals, and the reconciler signals what
/// nobody else did: so its `idle_interval` is how soon a message of another
/// process is found, and those of sequencers and processors have no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerTuning {
    /// How many messages at once, at most 10,000. The reconciler has no batches.
    pub batch_size: u32,
    /// How many bytes of payloads a processor takes at once: a batch ends with the message
    /// that reaches it, so it always has one. 8 MiB by default. A process holds about so
    /// much for each partition that it works on, and twice that with `concurrency` or in
    /// transactional mode.
    pub batch_bytes: usize,
    /// The shortest pause between two passes while there is work.
    pub min_interval: Duration,
    /// The pause after the first pass with work; it shrinks by `ramp_step`.
    pub active_interval: Duration,
    /// How long the reconciler and vacuum rest.
    pub idle_interval: Duration,
    /// By how much the pause shrinks with every pass that finds work.
    pub ramp_step: Duration,
    /// The first pause after a failure; it doubles.
    pub retry_base: Duration,
    /// The longest pause after failures.
    pub retry_max: Duration,
    /// After how many failures in a row a batch shrinks.
    pub degradation_threshold: u32,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $ty:ty),* $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $ty) -> Self {
            self.$name = $name;
            self
        }
    )*};
}

impl WorkerTuning {
    const fn of(batch_size: u32, idle: Duration) -> Self {
        Self {
            batch_size,
            batch_bytes: 8 << 20,
            min_interval: Duration::ZERO,
            active_interval: Duration::ZERO,
            idle_interval: idle,
            ramp_step: Duration::ZERO,
            retry_base: Duration::from_millis(50),
            retry_max: Duration::from_secs(10),
            degradation_threshold: 1,
        }
    }

    setters! {
        /// Sets how many messages are taken at once.
        batch_size: u32,
        /// Sets how many bytes of payloads are taken at once.
        batch_bytes: usize,
        /// Sets the shortest pause between passes.
        min_interval: Duration,
        /// Sets the first pause between passes.
        active_interval: Duration,
        /// Sets how long to wait for a signal.
        idle_interval: Duration,
        /// Sets by how much pauses shrink.
        ramp_step: Duration,
        /// Sets the first pause after a failure.
        retry_base: Duration,
        /// Sets the longest pause after failures.
        retry_max: Duration,
        /// Sets after how many failures a batch shrinks.
        degradation_threshold: u32,
    }

    /// Everything that is wrong with it, in words.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |wrong: bool, text: String| {
            if wrong {
                problems.push(text);
            }
        };
        check(
            self.batch_size == 0,
            "batch_size is 0, use at least 1".into(),
        );
        check(
            self.batch_size > 10_000,
            format!("batch_size is {}, use at most 10,000", self.batch_size),
        );
        check(
            self.batch_bytes == 0,
            "batch_bytes is 0, use at least 1".into(),
        );
        check(
            self.min_interval > self.active_interval,
            format!(
                "min_interval ({:?}) is above active_interval ({:?})",
                self.min_interval, self.active_interval
            ),
        );
        check(
            self.idle_interval.is_zero(),
            "idle_interval is 0, which would never rest".into(),
        );
        check(self.retry_base.is_zero(), "retry_base is 0".into());
        check(
            self.retry_base > self.retry_max,
            format!(
                "retry_base ({:?}) is above retry_max ({:?})",
                self.retry_base, self.retry_max
            ),
        );
        check(
            self.degradation_threshold == 0,
            "degradation_threshold is 0, use at least 1".into(),
        );
        problems
    }
}

/// The pause between passes while there is work: shorter each time.
pub(crate) struct Pace {
    next: Duration,
    step: Duration,
    least: Duration,
}

impl Pace {
    pub(crate) fn new(tuning: &WorkerTuning) -> Self {
        Self {
            next: tuning.active_interval,
            step: tuning.ramp_step,
            least: tuning.min_interval,
        }
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_sub(self.step).max(self.least);
        pause
    }
}

/// Tuning of all workers together.
///
/// | profile | batches | looks for work of other processes every |
/// |---|---|---|
/// | `default` | 100 | 1.1 s |
/// | `low_latency` | 20 | 100 ms |
/// | `high_throughput` | 500 | 1.1 s |
/// | `relaxed` | 100 | 5 s |
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxProfile {
    /// The sequencer's.
    pub sequencer: WorkerTuning,
    /// The processors'.
    pub processor: WorkerTuning,
    /// Vacuum's.
    pub vacuum: WorkerTuning,
    /// The reconciler's; its idle interval is how soon lost wake-ups are found.
    pub reconciler: WorkerTuning,
}

/// With the five statements a minute that look after everything else, an idle process
/// makes no more than one a second.
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

    /// Small batches, frequent looks.
    #[must_use]
    pub const fn low_latency() -> Self {
        Self::of(500, 20, Duration::from_millis(100))
    }

    /// Large batches.
    #[must_use]
    pub const fn high_throughput() -> Self {
        Self::of(2_000, 500, IDLE)
    }

    /// For work that can wait: rare looks, long pauses after failures.
    #[must_use]
    pub fn relaxed() -> Self {
        let mut profile = Self::of(1_000, 100, Duration::from_secs(5));
        profile.processor.retry_base = Duration::from_millis(500);
        profile.processor.retry_max = Duration::from_secs(60);
        profile
    }
}

/// The longest pause that is kept; every engine can add it to its clock.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// How long a claim of messages is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseConfig {
    /// After this a claim counts as died and another process may take over.
    pub duration: Duration,
    /// This long before, the handler's token is cancelled; half of it later the
    /// handler is dropped. The rest is for writing down what happened.
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

/// How often and when a message that failed is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After this many failed attempts a message goes to the dead letters; also after so many that
    /// never returned, because their process died.
    pub max_attempts: u32,
    /// The pause after the first failed attempt; it doubles.
    pub base: Duration,
    /// The longest pause.
    pub max: Duration,
    /// Whether the pause is chosen at random between nothing and the above, so
    /// that failures do not come back in step.
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

    #[test]
    fn a_pace_quickens_to_its_least() {
        let ms = Duration::from_millis;
        let tuning = WorkerTuning::of(1, ms(1))
            .active_interval(ms(10))
            .ramp_step(ms(4))
            .min_interval(ms(1));
        let mut pace = Pace::new(&tuning);
        assert_eq!([(); 5].map(|()| pace.next()), [10, 6, 2, 1, 1].map(ms));
    }

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
