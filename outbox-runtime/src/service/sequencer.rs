//! The sequencer: numbers what is committed, queue by queue.

use super::supervisor::{QueueRuntime, Shared};
use crate::config::Pace;
use crate::database::sequencing::{Places, Sequenced, sequence};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So long after a signal a sequencer that finds nothing looks again at once, since the
/// commit comes after the signal: a look is one statement that writes nothing.
const EAGER: Duration = Duration::from_millis(4);

/// Then it looks again every millisecond, as long as commits usually take, and then
/// after 2, 4, 8 ... ms, so often in all.
const STEADY_LOOKS: u32 = 6;
const HOT_LOOKS: u32 = 14;

/// After a pass that found something it rests as long as that took, within these: the
/// busier the server, the more each pass is for. Longer rests were measured to add their
/// length to every message and to save next to nothing.
const LEAST_PAUSE: Duration = Duration::from_millis(1);
const MOST_PAUSE: Duration = Duration::from_millis(5);

/// Numbers what is committed, as long as there is something; then waits.
pub(crate) async fn run_sequencer(shared: Arc<Shared>, index: usize) {
    let runtime = &shared.queues[index];
    let tuning = &shared.profile.sequencer;
    let what = format!("the sequencer of queue `{}`", runtime.queue.name());
    let limit = tuning.batch_size;
    let (mut looks, mut failures, mut places) = (0, 0, Places::default());
    let (mut marks, mut marked_at) = (runtime.signal.marks(), Instant::now());
    let mut pace = Pace::new(tuning);
    while !shared.stopping() {
        if marks != runtime.signal.marks() {
            (marks, marked_at) = (runtime.signal.marks(), Instant::now());
            looks = 0;
        }
        let began = Instant::now();
        let thorough = runtime.signal.take_thorough();
        let pass = sequence(
            &shared.kept,
            runtime.queue.queue_id(),
            limit,
            shared.asynchronous,
            thorough,
            &mut places,
        );
        let done = shared.pass(&what, tuning, &mut failures, pass).await;
        if thorough && done.as_ref().is_none_or(|done| done.locked) {
            runtime.signal.look_everywhere();
        }
        let Some(done) = done else {
            continue;
        };
        runtime.wake(done.moved);
        if done.taken > 0 {
            looks = 0;
        } else {
            pace = Pace::new(tuning);
            if marked_at.elapsed() < EAGER && !done.locked {
                continue;
            }
            looks += 1;
        }
        if done.taken >= limit as usize {
            shared.pause(pace.next()).await;
        } else if looks < HOT_LOOKS {
            let least = began.elapsed().clamp(LEAST_PAUSE, MOST_PAUSE);
            look_again(&shared, runtime, looks, least, &done).await;
        } else {
            looks = 0;
            tokio::select! {
                () = runtime.signal.marked() => {}
                () = shared.stop.stopping.cancelled() => {}
            }
        }
    }
}

/// A short pause. After a pass that found something, or that somebody else makes, it is
/// `least`: signals come with every message, passes are for many. Else a signal ends it.
async fn look_again(
    shared: &Shared,
    runtime: &QueueRuntime,
    looks: u32,
    least: Duration,
    done: &Sequenced,
) {
    if done.taken > 0 || done.locked {
        tokio::time::sleep(least).await;
    }
    if done.taken == 0 {
        let doublings = looks.saturating_sub(STEADY_LOOKS);
        tokio::select! {
            () = runtime.signal.marked() => {}
            () = shared.pause(LEAST_PAUSE * 2_u32.pow(doublings)) => {}
        }
    }
}
