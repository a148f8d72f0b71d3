//! Writing down how a claim ended that did not end well.

use super::processor::{Claim, Consumer, Next, Worked};
use crate::dialect::{ErrorClass, classify};
use crate::handler::HandlerResult;
use crate::store::settlement::{self, Burial, Failure, Settlement};
use sea_orm::DbErr;
use std::time::{Duration, Instant};

/// The longest reason that is kept.
const MAX_REASON: usize = 2_000;
/// The longest delay a handler may ask for; every engine can add it to its clock.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whether the one message was tried often enough although nothing came back.
pub(super) fn exhausted(consumer: &Consumer, claim: &Claim) -> bool {
    !claim.messages.is_empty()
        && claim
            .charged
            .is_some_and(|attempts| attempts.unsigned_abs() > consumer.retry.max_attempts)
}

pub(super) async fn bury_exhausted(consumer: &Consumer, claim: &Claim) -> Result<Worked, DbErr> {
    let reason = "its handler never returned: the process died or lost its lease each time";
    // The attempt charged with this claim was not made.
    let attempts = claim.charged.unwrap_or(1) - 1;
    let burial = burial(claim, 0, attempts, reason.to_owned());
    log_burial(consumer, claim, &burial);
    settle(consumer, claim, 1, None, vec![burial]).await?;
    Ok(Worked::Settled(Next::Again))
}

/// Writes how a claim ended that did not end well: `done` messages are done
/// (some of them rejected), the next one failed. An attempt that is the last
/// buries the message.
pub(crate) async fn settle_failure(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
    failed: HandlerResult,
) -> Result<Worked, DbErr> {
    let attempts = claim.charged.unwrap_or(1);
    let mut burials: Vec<Burial> = rejected
        .into_iter()
        .map(|(index, reason)| burial(claim, index, attempts, reason))
        .collect();
    let mut failure = None;
    let mut done = done;
    let mut next = Next::Again;
    if let Some(message) = claim.messages.get(done) {
        let spent = attempts.unsigned_abs();
        let outcome = match failed {
            HandlerResult::Success => None,
            HandlerResult::Reject { reason } => Some((reason, None)),
            HandlerResult::Retry { reason } => Some((reason, Some(consumer.retry.delay(spent)))),
            HandlerResult::RetryAfter { reason, delay } => {
                Some((reason, Some(delay.min(LONGEST_DELAY))))
            }
        };
        match outcome {
            None => {}
            Some((reason, Some(delay))) if spent < consumer.retry.max_attempts => {
                tracing::warn!(
                    queue = &*consumer.queue, partition = claim.partition, consumer = consumer.name,
                    event = message.event_type(), id = message.id().get(), attempt = spent,
                    retry_in = ?delay, reason = bounded(&reason), "a message failed"
                );
                next = Next::Later(delay);
                failure = Some(Failure {
                    seq: message.sequence(),
                    attempts,
                    charged: claim.charged.is_some(),
                    delay,
                    reason: Some(bounded(&reason)),
                });
            }
            Some((reason, _)) => {
                burials.push(burial(claim, done, attempts, reason));
                done += 1;
            }
        }
    }
    for burial in &burials {
        tracing::error!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            id = burial.id,
            attempts = burial.attempts,
            reason = burial.reason,
            "a message goes to the dead letters"
        );
    }
    settle(consumer, claim, done, failure, burials).await?;
    Ok(Worked::Settled(next))
}

/// Gives a claim back unfinished, as a stop does: nothing counts.
pub(crate) async fn settle_stopped(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
) -> Result<Worked, DbErr> {
    let burials = rejected
        .into_iter()
        .map(|(index, reason)| burial(claim, index, claim.charged.unwrap_or(1), reason))
        .collect();
    // The charge made at the claim is taken back.
    let uncharged = match (claim.charged, claim.messages.get(done)) {
        (Some(attempts), Some(message)) => Some(Failure {
            seq: message.sequence(),
            attempts: attempts - 1,
            charged: true,
            delay: Duration::ZERO,
            reason: None,
        }),
        _ => None,
    };
    settle(consumer, claim, done, uncharged, burials).await?;
    Ok(Worked::Settled(Next::Again))
}

/// Keeps trying while the lease may still be ours: what is not written down is
/// done again.
async fn settle(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    failure: Option<Failure>,
    burials: Vec<Burial>,
) -> Result<(), DbErr> {
    let ack = claim.ack(done);
    let outcome = Settlement {
        queue: &consumer.queue,
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        epoch: claim.epoch,
        processed: ack.processed,
        claimed: ack.claimed,
        failure,
        burials,
    };
    let mut pause = Duration::from_millis(5);
    let mut refused = 0;
    loop {
        let permit = consumer.statements.acquire().await;
        let settled = settlement::settle(&consumer.db, &outcome).await;
        drop(permit);
        match settled {
            Ok(true) => return Ok(()),
            Ok(false) => {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "lost the lease; nothing was written"
                );
                return Ok(());
            }
            // A refused statement will be refused again; one more try is for luck.
            Err(error) if classify(&error) == ErrorClass::Statement && refused > 0 => {
                return Err(error);
            }
            Err(error)
                if Instant::now() + pause < claim.clock.over_at()
                    && !consumer.stop.stopped.is_cancelled() =>
            {
                refused += u32::from(classify(&error) == ErrorClass::Statement);
                tracing::debug!(%error, "settling failed, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(error) => return Err(error),
        }
    }
}

fn log_burial(consumer: &Consumer, claim: &Claim, burial: &Burial) {
    tracing::error!(
        queue = &*consumer.queue,
        partition = claim.partition,
        consumer = consumer.name,
        id = burial.id,
        attempts = burial.attempts,
        reason = burial.reason,
        "a message goes to the dead letters"
    );
}

fn burial(claim: &Claim, index: usize, attempts: i32, reason: String) -> Burial {
    let message = &claim.messages[index];
    Burial {
        seq: message.sequence(),
        id: message.id().get(),
        attempts,
        reason: bounded(&reason),
    }
}

/// Short enough, and without the one character PostgreSQL cannot keep.
fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON)].replace('\0', "\u{fffd}")
}
