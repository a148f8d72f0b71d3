//! Runs a handler no longer than it may: until its lease is nearly over or the
//! process stops; a panic is an outcome.

use crate::config::LeaseConfig;
use crate::handler::states::States;
use crate::handler::{Ctx, HandlerResult, OutboxMessage};
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
    /// Does not count a failure that may be due to our asking the handler to finish.
    pub(crate) fn excuse(&self, end: AttemptEnd) -> AttemptEnd {
        match end {
            AttemptEnd::Result(HandlerResult::Retry { .. } | HandlerResult::RetryAfter { .. })
                if self.stopping.is_cancelled() =>
            {
                AttemptEnd::Stopped
            }
            end => end,
        }
    }
}

/// How a handler ended.
pub(crate) enum HandlerEnd<T> {
    Returned(T),
    Panicked(String),
    /// It was dropped because its lease was nearly over.
    LeaseOver,
    /// It was dropped because the process stops.
    Stopped,
}

/// What counts of an attempt.
pub(crate) enum AttemptEnd {
    /// The handler said so, or its end says so for it.
    Result(HandlerResult),
    /// The process stops: nothing counts.
    Stopped,
}

impl HandlerEnd<HandlerResult> {
    /// What counts of it. A panic and the end of the lease are failures.
    pub(crate) fn attempt(self, lease: Duration) -> AttemptEnd {
        AttemptEnd::Result(match self {
            Self::Returned(result) => result,
            Self::Panicked(reason) => HandlerResult::Retry { reason },
            Self::LeaseOver => HandlerResult::retry(lease_over_text(lease)),
            Self::Stopped => return AttemptEnd::Stopped,
        })
    }
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
        Self::since(Instant::now(), lease)
    }

    pub(crate) fn since(claimed_at: Instant, lease: LeaseConfig) -> Self {
        Self { claimed_at, lease }
    }

    /// When the handler's token is cancelled.
    pub(crate) fn cancel_at(&self) -> Instant {
        self.claimed_at + (self.lease.duration - self.lease.headroom)
    }

    /// Whether so little of the lease is left that a handler would be cancelled at once.
    pub(crate) fn is_late(&self) -> bool {
        Instant::now() >= self.cancel_at()
    }

    /// When the handler is dropped.
    pub(crate) fn drop_at(&self) -> Instant {
        self.cancel_at() + self.lease.headroom / 2
    }

    /// When a lease that is kept is renewed: well before its handlers are cancelled.
    pub(crate) fn renew_at(&self) -> Instant {
        let (duration, headroom) = (self.lease.duration, self.lease.headroom);
        self.claimed_at + (duration / 3).min((duration - headroom) / 2)
    }

    /// When the lease is over.
    pub(crate) fn over_at(&self) -> Instant {
        self.claimed_at + self.lease.duration
    }

    /// Whether a handler that has just ended did not return in time: it was dropped, or it blocked
    /// its thread so that it could not be.
    pub(crate) fn has_overrun<T>(&self, ended: &HandlerEnd<T>) -> bool {
        matches!(ended, HandlerEnd::LeaseOver) || Instant::now() >= self.drop_at()
    }

    /// Whether so much of the lease is gone that another message should have a new one, and
    /// that one which has not begun should not.
    pub(crate) fn is_half_over(&self) -> bool {
        self.claimed_at.elapsed() > (self.lease.duration - self.lease.headroom) / 2
    }
}

/// What the handlers of a claim are given.
pub(crate) struct RunContext {
    token: CancellationToken,
    deadline: Instant,
    states: States,
}

impl RunContext {
    pub(crate) fn ctx(&self, message: OutboxMessage) -> Ctx {
        let (token, states) = (self.token.clone(), self.states.clone());
        Ctx::new(message, token, self.deadline, states)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

/// Runs handlers under a claim. Before they are dropped, `before_drop` runs; meanwhile they go on.
pub(crate) async fn run<T>(
    stop: &Stop,
    clock: LeaseClock,
    states: &States,
    handlers: impl AsyncFnOnce(&RunContext) -> T,
    before_drop: impl AsyncFnOnce(),
) -> HandlerEnd<T> {
    let token = stop.stopping.child_token();
    let running = RunContext {
        token: token.clone(),
        deadline: clock.cancel_at(),
        states: states.clone(),
    };
    let work = AssertUnwindSafe(handlers(&running)).catch_unwind();
    tokio::pin!(work);
    let mut cancelled = false;
    let ended = loop {
        let next = if cancelled {
            clock.drop_at()
        } else {
            clock.cancel_at()
        };
        tokio::select! {
            biased;
            ended = &mut work => return match ended {
                Ok(result) => HandlerEnd::Returned(result),
                Err(panic) => HandlerEnd::Panicked(panic_text(&*panic)),
            },
            () = stop.stopped.cancelled() => {
                stop.interrupted.fetch_add(1, Ordering::AcqRel);
                break HandlerEnd::Stopped;
            }
            () = tokio::time::sleep_until(next.into()) => {
                if cancelled {
                    break HandlerEnd::LeaseOver;
                }
                token.cancel();
                cancelled = true;
            }
        }
    };
    go_on(work, before_drop).await;
    ended
}

/// Lets work go on while `before_drop` runs. The outcome of the work is ignored.
async fn go_on(work: impl Future, before_drop: impl AsyncFnOnce()) {
    tokio::select! {
        biased;
        () = before_drop() => {}
        _ = work => {}
    }
}

/// A `before_drop` that does nothing.
pub(crate) async fn nothing() {}

/// How long a handler may go on after its timeout, once its token is cancelled.
const GRACE: Duration = Duration::from_millis(250);

/// The time that one call of a handler has, beside that of its claim.
pub(crate) struct Limit {
    ctx: Ctx,
    timeout: Option<Duration>,
}

impl Limit {
    /// The time of the call begins now.
    pub(crate) fn start(timeout: Option<Duration>, ctx: Ctx) -> Self {
        let ctx = match timeout {
            Some(timeout) => ctx.until(Instant::now() + timeout),
            None => ctx,
        };
        Self { ctx, timeout }
    }

    /// What the call is given.
    pub(crate) fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Runs the call: at its end of time the token is cancelled, a little later
    /// the call is dropped, after `before_drop`. What it still completes counts.
    pub(crate) async fn run(
        &self,
        call: impl Future<Output = HandlerResult>,
        before_drop: impl AsyncFnOnce(),
    ) -> HandlerResult {
        let Some(timeout) = self.timeout else {
            return call.await;
        };
        tokio::pin!(call);
        if let Ok(result) = tokio::time::timeout(timeout, &mut call).await {
            return result;
        }
        self.ctx.cancellation().cancel();
        let late = format!("timed out after {timeout:?}");
        match tokio::time::timeout(GRACE, &mut call).await {
            Err(_) => {
                go_on(call, before_drop).await;
                HandlerResult::retry(late)
            }
            Ok(HandlerResult::Retry { reason }) => {
                HandlerResult::retry(format!("{late}: {reason}"))
            }
            Ok(HandlerResult::RetryAfter { reason, delay }) => {
                HandlerResult::retry_after(delay, format!("{late}: {reason}"))
            }
            Ok(result) => result,
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

/// Why an attempt failed whose handler was dropped.
fn lease_over_text(lease: Duration) -> String {
    format!("cancelled: it did not finish within its lease of {lease:?}")
}
