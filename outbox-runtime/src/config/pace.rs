//! Computes how long a worker pauses between two passes while there is work.

use super::WorkerTuning;
use std::time::Duration;

/// The pauses between passes while there is work. Each is shorter than the one before, down to a
/// limit.
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
