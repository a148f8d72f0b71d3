//! The sequencer of a queue: gives committed messages their sequence numbers.
//!
//! It polls as long as there is something, and waits for a signal otherwise. A poll that finds
//! nothing writes nothing, so polling again soon costs little. One sequencer of a queue numbers at
//! a time; another process that holds the queue is never waited for.

use super::supervisor::{ServedQueue, ServiceContext, Supervisor};
use crate::config::{Pace, WorkerTuning};
use crate::database::sequence::{PartitionRows, Sequenced, sequence};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For this long after a signal a sequencer that finds nothing polls again at once. The commit
/// comes after the signal, and it usually comes soon.
const EAGER: Duration = Duration::from_millis(4);

/// After the eager polls, so many polls come a millisecond apart: most commits come in that time.
const STEADY_POLLS: u32 = 6;

/// Each poll after those waits twice as long as the one before: 2, 4, 8 ... ms. After so many polls
/// in all, the sequencer waits for a signal.
const MOST_POLLS: u32 = 14;

/// A pass that found something is followed by a rest as long as the pass took, within these limits.
/// On a busy server passes take longer, so each pass then numbers more messages. Longer rests were
/// measured: each message waits longer, and the server does hardly less.
const LEAST_REST: Duration = Duration::from_millis(1);
const MOST_REST: Duration = Duration::from_millis(5);

/// Numbers the messages of one queue until the outbox stops.
pub(crate) async fn run(context: Arc<ServiceContext>, queue: usize) {
    let queue = &context.queues[queue];
    let tuning = &context.profile.sequencer;
    let service = format!("the sequencer of queue `{}`", queue.queue.name());
    let mut sequencer = Sequencer {
        context: &context,
        queue,
        supervisor: context.supervisor(&service, tuning),
        partition_rows: PartitionRows::default(),
    };
    let mut polls = Polls::new(tuning, queue.signal.sent(), Instant::now());
    while !context.stopping() {
        let began = Instant::now();
        polls.begin(queue.signal.sent(), began);
        if let Some(done) = sequencer.run_once().await {
            let wait = polls.end(done.taken, done.locked, began, Instant::now());
            sequencer.wait(wait).await;
        }
    }
}

struct Sequencer<'a> {
    context: &'a ServiceContext,
    queue: &'a ServedQueue,
    supervisor: Supervisor<'a>,
    /// Where PostgreSQL had the queue's partitions last.
    partition_rows: PartitionRows,
}

impl Sequencer<'_> {
    /// Numbers one batch and wakes the partitions that got messages. `None` means that the pass
    /// failed.
    async fn run_once(&mut self) -> Option<Sequenced> {
        let signal = &self.queue.signal;
        let thorough = signal.take_thorough_request();
        let pass = sequence(
            &self.context.connections,
            self.queue.queue.queue_id(),
            self.context.profile.sequencer.batch_size,
            self.context.asynchronous_commit,
            thorough,
            &mut self.partition_rows,
        );
        let done = self.supervisor.run(pass).await;
        if thorough && done.as_ref().is_none_or(|done| done.locked) {
            signal.request_thorough_poll();
        }
        let done = done?;
        self.queue.wake(done.moved);
        Some(done)
    }

    async fn wait(&self, wait: Wait) {
        match wait {
            Wait::Nothing => {}
            Wait::Pause(duration) => self.context.pause(duration).await,
            Wait::Rest(duration) => tokio::time::sleep(duration).await,
            Wait::SignalOrPause { rest, pause } => {
                if let Some(rest) = rest {
                    tokio::time::sleep(rest).await;
                }
                tokio::select! {
                    () = self.queue.signal.wait() => {}
                    () = self.context.pause(pause) => {}
                }
            }
            Wait::Signal => tokio::select! {
                () = self.queue.signal.wait() => {}
                () = self.context.stop.stopping.cancelled() => {}
            },
        }
    }
}

/// What the sequencer does between two polls. A stop ends each of them except a rest.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    /// Polls again at once.
    Nothing,
    /// Pauses as the profile says: the batch was full, so there is more.
    Pause(Duration),
    /// Rests although signals come: signals come with every message, passes are for many.
    Rest(Duration),
    /// Waits for a signal, but no longer than `pause`. Rests before that if another process is
    /// numbering the queue.
    SignalOrPause {
        rest: Option<Duration>,
        pause: Duration,
    },
    /// Waits for a signal.
    Signal,
}

/// When a sequencer polls again.
struct Polls<'a> {
    tuning: &'a WorkerTuning,
    pace: Pace,
    /// How many signals had been sent when the last poll began.
    signals: u64,
    /// When a poll saw the last of them.
    signalled_at: Instant,
    /// Polls in a row that found nothing, without the eager ones.
    empty: u32,
}

impl<'a> Polls<'a> {
    /// The start counts as a signal.
    fn new(tuning: &'a WorkerTuning, signals: u64, now: Instant) -> Self {
        Self {
            tuning,
            pace: Pace::new(tuning),
            signals,
            signalled_at: now,
            empty: 0,
        }
    }

    /// A poll begins. `signals` have been sent so far.
    fn begin(&mut self, signals: u64, now: Instant) {
        if self.signals != signals {
            (self.signals, self.signalled_at) = (signals, now);
            self.empty = 0;
        }
    }

    /// A poll that began at `began` has numbered `taken` messages, or has found the queue `locked`
    /// by another process.
    fn end(&mut self, taken: usize, locked: bool, began: Instant, now: Instant) -> Wait {
        if taken > 0 {
            self.empty = 0;
        } else {
            self.pace = Pace::new(self.tuning);
            if now.duration_since(self.signalled_at) < EAGER && !locked {
                return Wait::Nothing;
            }
            self.empty += 1;
        }
        let rest = now.duration_since(began).clamp(LEAST_REST, MOST_REST);
        if taken >= self.tuning.batch_size as usize {
            return Wait::Pause(self.pace.next());
        }
        if self.empty >= MOST_POLLS {
            self.empty = 0;
            return Wait::Signal;
        }
        if taken > 0 {
            return Wait::Rest(rest);
        }
        let doublings = self.empty.saturating_sub(STEADY_POLLS);
        Wait::SignalOrPause {
            rest: locked.then_some(rest),
            pause: LEAST_REST * 2_u32.pow(doublings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::OutboxProfile;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn tuning() -> WorkerTuning {
        let tuning = OutboxProfile::default().sequencer;
        tuning.batch_size(10).active_interval(ms(7))
    }

    fn signal_or_pause(millis: u64) -> Wait {
        Wait::SignalOrPause {
            rest: None,
            pause: ms(millis),
        }
    }

    /// Ends a poll that began at `at` and took no time.
    fn end(polls: &mut Polls<'_>, taken: usize, at: Instant) -> Wait {
        polls.end(taken, false, at, at)
    }

    #[test]
    fn after_a_signal_it_polls_at_once_then_ever_more_rarely_then_it_waits_for_the_next() {
        let (tuning, start) = (tuning(), Instant::now());
        let mut polls = Polls::new(&tuning, 0, start);
        for micros in [0, 1_000, 3_999] {
            let now = start + Duration::from_micros(micros);
            polls.begin(0, now);
            assert_eq!(end(&mut polls, 0, now), Wait::Nothing, "{micros}");
        }
        let late = start + EAGER;
        polls.begin(0, late);
        for millis in [1, 1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 128] {
            assert_eq!(end(&mut polls, 0, late), signal_or_pause(millis));
        }
        assert_eq!(end(&mut polls, 0, late), Wait::Signal);
        // It may wake without a new signal: then it is not eager.
        polls.begin(0, late);
        assert_eq!(end(&mut polls, 0, late), signal_or_pause(1));
        polls.begin(1, late);
        assert_eq!(end(&mut polls, 0, late), Wait::Nothing);
    }

    #[test]
    fn a_signal_between_two_looks_makes_it_eager_again() {
        let (tuning, start) = (tuning(), Instant::now());
        let mut polls = Polls::new(&tuning, 0, start);
        let late = start + ms(100);
        for millis in [1, 1, 1, 1, 1, 1, 2] {
            assert_eq!(end(&mut polls, 0, late), signal_or_pause(millis));
        }
        polls.begin(1, late);
        assert_eq!(end(&mut polls, 0, late + ms(3)), Wait::Nothing);
        polls.begin(1, late + ms(4));
        assert_eq!(end(&mut polls, 0, late + ms(4)), signal_or_pause(1));
    }

    #[test]
    fn after_a_find_it_rests_as_long_as_the_pass_took_between_one_and_five_milliseconds() {
        let (tuning, start) = (tuning(), Instant::now());
        let mut polls = Polls::new(&tuning, 0, start);
        for (took, rest) in [(0, 1), (3, 3), (5, 5), (900, 5)] {
            let wait = polls.end(9, false, start, start + ms(took));
            assert_eq!(wait, Wait::Rest(ms(rest)));
        }
        // The polls are counted anew.
        assert_eq!(end(&mut polls, 0, start + ms(900)), signal_or_pause(1));
    }

    #[test]
    fn a_full_batch_is_followed_by_the_next_at_the_pace_of_the_profile() {
        let tuning = tuning().ramp_step(ms(3)).min_interval(ms(1));
        let start = Instant::now();
        let mut polls = Polls::new(&tuning, 0, start);
        for millis in [7, 4, 1, 1] {
            assert_eq!(end(&mut polls, 10, start), Wait::Pause(ms(millis)));
        }
        // An empty poll ends the ramp.
        assert_eq!(end(&mut polls, 0, start), Wait::Nothing);
        assert_eq!(end(&mut polls, 10, start), Wait::Pause(ms(7)));
    }

    #[test]
    fn while_another_process_numbers_the_queue_it_is_not_eager_and_rests_before_each_look() {
        let (tuning, start) = (tuning(), Instant::now());
        let mut polls = Polls::new(&tuning, 0, start);
        let wait = polls.end(0, true, start, start + ms(3));
        let (rest, pause) = (Some(ms(3)), ms(1));
        assert_eq!(wait, Wait::SignalOrPause { rest, pause });
    }
}
