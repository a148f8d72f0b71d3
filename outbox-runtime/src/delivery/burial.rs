//! Dead letters: which messages become one without another attempt, what is written for one, and
//! telling of those that are written.

use super::claim::Claim;
use super::consumer::Consumer;
use crate::database::attempts::{self, Attempts};
use crate::database::settlement::Burial;
use crate::handler::DeadLetterNotice;
use crate::handler::OutboxMessage;
use crate::handler::reason::bounded_reason;
use sea_orm::DbErr;

/// Whether the one message was tried often enough.
pub(super) fn exhausted(consumer: &Consumer, claim: &Claim) -> bool {
    let first = claim.messages.first();
    first.is_some_and(|message| is_exhausted(consumer, message, claim.attempts))
}

/// Whether a message was tried often enough. Failures and deaths are counted apart, and have the
/// same limit.
pub(super) fn is_exhausted(
    consumer: &Consumer,
    message: &OutboxMessage,
    attempts: Attempts,
) -> bool {
    let most = attempts.failures.max(attempts.deaths);
    most.unsigned_abs() >= consumer.retry(message.event_type()).max_attempts
}

/// Why a message becomes a dead letter without another attempt.
pub(super) async fn exhausted_reason(
    consumer: &Consumer,
    message: &OutboxMessage,
) -> Result<String, DbErr> {
    let partition_id = consumer.queue_id.partition(message.partition());
    let (db, name) = (&consumer.db, &consumer.name);
    let known = attempts::last_error(db, partition_id, name, message.sequence()).await?;
    Ok(match known {
        None => "its handler never returned: the process died or lost its lease each time".into(),
        Some(known) => format!("{known} (and did not return since, or has fewer attempts now)"),
    })
}

/// Logs dead letters that are written, and calls the application's hook for each.
pub(super) fn announce(
    consumer: &Consumer,
    messages: &[OutboxMessage],
    burials: &[Burial],
    letters: &[Option<i64>],
) {
    for (burial, letter) in burials.iter().zip(letters) {
        let buried = |message: &&OutboxMessage| message.sequence() == burial.seq;
        let (Some(letter), Some(message)) = (letter, messages.iter().find(buried)) else {
            continue;
        };
        tracing::error!(
            queue = &*consumer.queue,
            partition = message.partition(),
            consumer = consumer.name,
            sequence = burial.seq,
            event = message.event_type(),
            id = burial.id,
            attempts = burial.attempts,
            reason = burial.reason,
            letter,
            "a message went to the dead letters"
        );
        consumer.on_dead_letter.call(|| DeadLetterNotice {
            id: (*letter).into(),
            message: message.clone(),
            consumer: consumer.name.clone(),
            attempts: burial.attempts.unsigned_abs(),
            reason: burial.reason.clone(),
        });
    }
}

/// What is written for a message that becomes a dead letter.
pub(super) fn burial(message: &OutboxMessage, attempts: i32, reason: &str) -> Burial {
    Burial {
        seq: message.sequence(),
        id: message.id().get(),
        attempts,
        reason: bounded_reason(reason),
    }
}
