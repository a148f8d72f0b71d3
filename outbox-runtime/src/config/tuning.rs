//! Settings for how eagerly one kind of worker works.

use std::time::Duration;

/// How one kind of worker paces itself. Setters consume and return it. Values are checked only by
/// `start()`, which reports every problem.
///
/// Sequencers and processors wait for signals; their `idle_interval` has no effect. The reconciler
/// finds work whose signal was lost or was sent in another process, and wakes them. So its
/// `idle_interval` is how soon a message of another process is found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkerTuning {
    /// How many messages a worker takes at once, at most 10,000. The reconciler has no batches.
    pub batch_size: u32,
    /// How many bytes of payloads a processor takes at once; 8 MiB by default. A batch ends with
    /// the message that reaches this size, so it always has one message. For each partition that it
    /// works on, a process holds about this much, and twice as much with `concurrency` or in
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
    pub(super) const fn of(batch_size: u32, idle: Duration) -> Self {
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
        /// Sets how long the reconciler and vacuum rest.
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

    /// Everything that is wrong with the values, in words.
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
