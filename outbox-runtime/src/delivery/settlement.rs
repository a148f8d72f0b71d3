//! Writing down how a claim ended that did not end well.

use super::claim::{Claim, ClaimEnd};
use super::consumer::Consumer;
use super::guard::LeaseClock;
use super::processor::Next;
use super::quarantine::{self, Charge};
use super::transaction;
use crate::config::LONGEST_DELAY;
use crate::database::attempts::{self, AttemptChange, AttemptNote, Attempts};
use crate::database::cursor::Ack;
use crate::database::dialect::{ErrorClass, classify};
use crate::database::settlement::{self, Burial, Found, Settlement};
use crate::handler::reason::bounded_reason;
use crate::handler::{HandlerResult, OutboxMessage};
use crate::operate::dead_letter::DeadLetterNotice;

use sea_orm::{DatabaseTransaction, DbErr};
use std::time::{Duration, Instant};

/// Whether the one message was tried often enough.
pub(super) fn exhausted(consumer: &Consumer, claim: &Claim) -> bool {
    let first = claim.messages.first();
    first.is_some_and(|message| is_exhausted(consumer, message, claim.attempts))
}

/// Failures and deaths have the same limit, each of its own.
pub(super) fn is_exhausted(
    consumer: &Consumer,
    message: &OutboxMessage,
    attempts: Attempts,
) -> bool {
    let most = attempts.failures.max(attempts.deaths);
    most.unsigned_abs() >= consumer.retry(message.event_type()).max_attempts
}

pub(super) async fn bury_exhausted(consumer: &Consumer, claim: &Claim) -> Result<ClaimEnd, DbErr> {
    let message = &claim.messages[0];
    let reason = exhausted_reason(consumer, message).await?;
    let burial = burial(message, claim.attempts.total(), &reason);
    settle(consumer, claim, 1, None, vec![burial]).await?;
    Ok(ClaimEnd::Settled(Next::Again))
}

/// Why a message is buried without another attempt.
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

/// Writes how a claim ended that did not end well: `done` messages are done
/// (some of them rejected), the next one failed. An attempt that is the last
/// buries the message.
pub(crate) async fn settle_failure(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
    failed: HandlerResult,
) -> Result<ClaimEnd, DbErr> {
    let attempts = claim.attempts.total().saturating_add(1);
    let mut burials: Vec<Burial> = rejected
        .into_iter()
        .map(|(index, reason)| burial(&claim.messages[index], attempts, &reason))
        .collect();
    let mut note = None;
    let mut done = done;
    let mut next = Next::Again;
    if let Some(message) = claim.messages.get(done) {
        match verdict(consumer, message, claim.attempts, failed) {
            Verdict::Fine => {}
            Verdict::Again { delay, reason } => {
                next = Next::Later(delay);
                note = Some(AttemptNote {
                    seq: message.sequence(),
                    change: AttemptChange::Failed {
                        charged: claim.charge.is_some(),
                        delay,
                        reason,
                    },
                });
            }
            Verdict::Bury(reason) => {
                burials.push(burial(message, attempts, &reason));
                done += 1;
            }
        }
    }
    settle(consumer, claim, done, note, burials).await?;
    Ok(ClaimEnd::Settled(next))
}

/// What is to be done with a message.
pub(super) enum Verdict {
    Fine,
    Again { delay: Duration, reason: String },
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

/// Gives a claim back unfinished, as a stop does: nothing counts.
pub(crate) async fn settle_stopped(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
) -> Result<ClaimEnd, DbErr> {
    let burials = rejected
        .into_iter()
        .map(|(index, reason)| {
            let message = &claim.messages[index];
            burial(message, claim.attempts.total().saturating_add(1), &reason)
        })
        .collect();
    settle(consumer, claim, done, uncharged(claim, done), burials).await?;
    Ok(ClaimEnd::Settled(Next::Again))
}

/// Gives a claim back of which nothing ran, on the connection in hand if there is one: the pool
/// may have none left.
pub(super) async fn give_back(
    consumer: &Consumer,
    claim: &Claim,
    tx: Option<DatabaseTransaction>,
) -> Result<ClaimEnd, DbErr> {
    let uncharged = uncharged(claim, 0);
    settle_at(consumer, claim, claim.ack(0), uncharged, Vec::new(), tx).await?;
    Ok(ClaimEnd::Settled(Next::Again))
}

/// Gives back a claim that was answered when half of its time was over. Nobody is charged.
pub(super) async fn give_back_late(
    consumer: &Consumer,
    claim: &Claim,
    tx: Option<DatabaseTransaction>,
) -> Result<ClaimEnd, DbErr> {
    tracing::warn!(
        queue = &*consumer.queue,
        partition = claim.partition,
        consumer = consumer.name,
        lease = ?consumer.lease.duration,
        "the database took half of a lease to answer the claim; it is given back"
    );
    give_back(consumer, claim, tx).await
}

/// Gives back the connection of handlers that are not going to run.
pub(super) async fn release_any(tx: Option<DatabaseTransaction>) {
    if let Some(tx) = tx {
        transaction::release(tx).await;
    }
}

/// Takes back the charge, if there is one and its message is not done.
fn uncharged(claim: &Claim, done: usize) -> Option<AttemptNote> {
    let charge = claim.charge.filter(|_| done == 0)?;
    Some(quarantine::taken_back(charge.seq()))
}

/// Gives a claim back that the database did not let us finish.
///
/// If the connection was lost, a charge stays, and messages that were not charged
/// count as a claim that died: else a message that ends its connection each time would be tried for
/// ever. A lost race charges nobody: the handler returned, and the next try may win. Who loses
/// many in a row is charged for that elsewhere.
pub(super) async fn settle_aborted(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    error: &DbErr,
) -> Result<(), DbErr> {
    let mut ack = claim.ack(done);
    let mut uncharged = None;
    match classify(error) {
        ErrorClass::Connection => ack.claimed = ack.claimed.max(claim.last_seq),
        ErrorClass::Race => uncharged = self::uncharged(claim, done),
        ErrorClass::Statement => {}
    }
    settle_at(consumer, claim, ack, uncharged, Vec::new(), None).await
}

async fn settle(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    note: Option<AttemptNote>,
    burials: Vec<Burial>,
) -> Result<(), DbErr> {
    settle_at(consumer, claim, claim.ack(done), note, burials, None).await
}

async fn settle_at(
    consumer: &Consumer,
    claim: &Claim,
    ack: Ack,
    note: Option<AttemptNote>,
    burials: Vec<Burial>,
    tx: Option<DatabaseTransaction>,
) -> Result<(), DbErr> {
    let outcome = Settlement {
        queue: &consumer.queue,
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        epoch: claim.epoch,
        processed: ack.processed,
        claimed: ack.claimed,
        read: None,
        notes: note.into_iter().collect(),
        burials,
        done_beyond: Vec::new(),
        forget_attempts: true,
        keep: None,
    };
    let written = write(consumer, &claim.messages, claim.clock, &outcome, tx).await?;
    if written == SettlementEnd::LeaseLost
        && let Some(seq) = claim.charge.and_then(Charge::taken_back_without_lease)
    {
        quarantine::take_back(consumer, claim.partition_id, seq).await;
    }
    Ok(())
}

/// What became of a settlement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SettlementEnd {
    /// It is written.
    Written,
    /// The lease was lost: nothing is written.
    LeaseLost,
    /// The lease was lost, and an answer too: it may be written or not.
    Unknown,
}

/// Keeps trying while the lease may still be ours: what is not written down is
/// done again. The first try is made in `tx`, if there is one.
pub(super) async fn write(
    consumer: &Consumer,
    messages: &[OutboxMessage],
    clock: LeaseClock,
    outcome: &Settlement<'_>,
    mut tx: Option<DatabaseTransaction>,
) -> Result<SettlementEnd, DbErr> {
    let mut pause = Duration::from_millis(5);
    let (mut refused, mut unanswered) = (0, false);
    loop {
        let settled = match tx.take() {
            // Without a permit: those who have one may be waiting for this connection.
            Some(tx) => settlement::settle_in(tx, outcome).await,
            None => {
                let _permit = consumer.statements.acquire().await;
                settlement::settle(&consumer.db, outcome).await
            }
        };
        let settled = match settled {
            // An answer was lost, and maybe with it the news that all is written.
            Ok(None) if unanswered => {
                let _permit = consumer.statements.acquire().await;
                settlement::find_settled(&consumer.db, outcome).await
            }
            settled => settled.map(|letters| letters.map_or(Found::Unknown, Found::Settled)),
        };
        match settled {
            Ok(Found::Settled(letters)) => {
                announce(consumer, messages, &outcome.burials, &letters);
                return Ok(SettlementEnd::Written);
            }
            Ok(Found::Overtaken(letters)) => {
                announce(consumer, messages, &outcome.burials, &letters);
                return Ok(match outcome.keep {
                    None => SettlementEnd::Written,
                    Some(_) => SettlementEnd::Unknown,
                });
            }
            Ok(Found::Unknown) => {
                let written = match unanswered {
                    false => "nothing was written",
                    true => "the answer was lost too, so it may be written or not",
                };
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = outcome.partition_id.number(),
                    consumer = consumer.name,
                    "lost the lease; {written}"
                );
                return Ok(match unanswered {
                    false => SettlementEnd::LeaseLost,
                    true => SettlementEnd::Unknown,
                });
            }
            // A refused statement will be refused again; one more try is for luck.
            Err(error) if classify(&error) == ErrorClass::Statement && refused > 0 => {
                return Err(error);
            }
            Err(error)
                if Instant::now() + pause < clock.over_at()
                    && !consumer.stop.stopped.is_cancelled() =>
            {
                unanswered = true;
                refused += u32::from(classify(&error) == ErrorClass::Statement);
                tracing::debug!(%error, "settling failed, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Says what was buried, once it is.
fn announce(
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

pub(super) fn burial(message: &OutboxMessage, attempts: i32, reason: &str) -> Burial {
    Burial {
        seq: message.sequence(),
        id: message.id().get(),
        attempts,
        reason: bounded_reason(reason),
    }
}
