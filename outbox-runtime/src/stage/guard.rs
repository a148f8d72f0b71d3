//! Runs a handler no longer than it may: until its lease is nearly over or the
//! process stops; a panic is an outcome.

use crate::handler::{Ctx, HandlerResult};
use crate::state::States;
use crate::tuning::LeaseConfig;
use futures_util::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// When work must be over: `stopping` asks handlers to finish, `stopped` drops them.
#[derive(Clone, Default)]
pub(crate) struct Stop {
    pub(crate) stopping: CancellationToken,
    pub(crate) stopped: CancellationToken,
    /// How many handlers were dropped because the process stops.
    pub(crate) interrupted: Arc<AtomicUsize>,
}

impl Stop {
    /// Whether a failure may be due to our asking the handler to finish: it is
    /// not counted then.
    pub(crate) fn excuses(&self, result: &HandlerResult) -> bool {
        let retry = matches!(
            result,
            HandlerResult::Retry { .. } | HandlerResult::RetryAfter { .. }
        );
        retry && self.stopping.is_cancelled()
    }
}

/// How a handler ended.
pub(crate) enum Ended<T> {
    Returned(T),
    Panicked(String),
    /// It was dropped because its lease was nearly over.
    LeaseOver,
    /// It was dropped because the process stops.
    Stopped,
}

/// The time a claim gives a handler, from the moment before it was asked for:
/// by our own monotonic clock we trust it for less than the database does.
#[derive(Clone, Copy)]
pub(crate) struct LeaseClock {
    claimed_at: Instant,
    lease: LeaseConfig,
}

impl LeaseClock {
    pub(crate) fn start(lease: LeaseConfig) -> Self {
        Self {
            claimed_at: Instant::now(),
            lease,
        }
    }

    /// When the handler's token is cancelled.
    pub(crate) fn cancel_at(&self) -> Instant {
        self.claimed_at + (self.lease.duration - self.lease.headroom)
    }

    /// When the handler is dropped.
    fn drop_at(&self) -> Instant {
        self.cancel_at() + self.lease.headroom / 2
    }

    /// When the lease is over.
    pub(crate) fn over_at(&self) -> Instant {
        self.claimed_at + self.lease.duration
    }

    /// Whether so much of the lease is gone that another message should have a new one.
    pub(crate) fn is_half_over(&self) -> bool {
        self.claimed_at.elapsed() > (self.lease.duration - self.lease.headroom) / 2
    }
}

/// Runs what `handler` makes of a context.
pub(crate) async fn run<T>(
    stop: &Stop,
    clock: LeaseClock,
    states: &States,
    handler: impl AsyncFnOnce(&Ctx) -> T,
) -> Ended<T> {
    let token = stop.stopping.child_token();
    let ctx = Ctx::new(token.clone(), clock.cancel_at(), states.clone());
    let work = AssertUnwindSafe(handler(&ctx)).catch_unwind();
    tokio::pin!(work);
    let mut cancelled = false;
    loop {
        let next = if cancelled {
            clock.drop_at()
        } else {
            clock.cancel_at()
        };
        tokio::select! {
            biased;
            ended = &mut work => return match ended {
                Ok(result) => Ended::Returned(result),
                Err(panic) => Ended::Panicked(panic_text(&*panic)),
            },
            () = stop.stopped.cancelled() => {
                stop.interrupted.fetch_add(1, Ordering::AcqRel);
                return Ended::Stopped;
            }
            () = tokio::time::sleep_until(next.into()) => {
                if cancelled {
                    return Ended::LeaseOver;
                }
                token.cancel();
                cancelled = true;
            }
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("(no text)"))
}

/// What is told of a handler that was dropped.
pub(crate) fn lease_over_text(lease: Duration) -> String {
    format!("cancelled: it did not finish within its lease of {lease:?}")
}
