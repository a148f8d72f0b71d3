//! What a handler's result means for its message.

use super::consumer::Consumer;
use crate::config::LONGEST_DELAY;
use crate::database::attempts::{AttemptChange, AttemptNote, Attempts};
use crate::handler::reason::bounded_reason;
use crate::handler::{HandlerResult, OutboxMessage};
use std::time::{Duration, Instant};

/// What is to be done with a message after an attempt.
pub(super) enum Verdict {
    /// It is done.
    Fine,
    /// It is tried again after the delay.
    Again { delay: Duration, reason: String },
    /// It becomes a dead letter, for this reason.
    Bury(String),
}

/// Judges a message by what its handler said after these attempts.
pub(super) fn verdict(
    consumer: &Consumer,
    message: &OutboxMessage,
    attempts: Attempts,
    result: HandlerResult,
) -> Verdict {
    let spent = attempts.failures.saturating_add(1).unsigned_abs();
    let retry = consumer.retry(message.event_type());
    let (reason, delay) = match result {
        HandlerResult::Success => return Verdict::Fine,
        HandlerResult::Reject { reason } => return Verdict::Bury(reason),
        HandlerResult::Retry { reason } => (reason, retry.delay(spent)),
        HandlerResult::RetryAfter { reason, delay } => (reason, delay.min(LONGEST_DELAY)),
    };
    if spent >= retry.max_attempts {
        return Verdict::Bury(reason);
    }
    let reason = bounded_reason(&reason);
    log_failure(
        consumer,
        message,
        (spent, retry.max_attempts),
        delay,
        &reason,
    );
    Verdict::Again { delay, reason }
}

fn log_failure(
    consumer: &Consumer,
    message: &OutboxMessage,
    (attempt, max_attempts): (u32, u32),
    delay: Duration,
    reason: &str,
) {
    macro_rules! log {
        ($level:ident, $($more:tt)*) => {
            tracing::$level!(
                queue = &*consumer.queue, partition = message.partition(),
                consumer = consumer.name, event = message.event_type(),
                sequence = message.sequence(), id = message.id().get(), attempt, max_attempts,
                retry_in = ?delay, reason, $($more)*
            )
        };
    }
    let failures = &consumer.failure_log;
    match failures.failed(attempt, max_attempts, Instant::now()) {
        None => log!(debug, "a message failed"),
        Some(unwarned) => log!(
            warn,
            unwarned,
            "a message failed; `unwarned` failures of this consumer since its last warning are \
             logged at DEBUG"
        ),
    }
}

/// The note of a failed attempt, which is not the last. `charged` says whether a death was charged
/// for it, which it was not.
pub(super) fn failed(seq: i64, charged: bool, delay: Duration, reason: String) -> AttemptNote {
    let change = AttemptChange::Failed {
        charged,
        delay,
        reason,
    };
    AttemptNote { seq, change }
}
