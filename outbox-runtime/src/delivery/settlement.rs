//! Writing down how a claim ended that did not end well.

use super::burial::{announce, burial, exhausted_reason};
use super::claim::{Claim, ClaimEnd};
use super::consumer::Consumer;
use super::guard::LeaseClock;
use super::processor::Next;
use super::quarantine::{self, Charge};
use super::verdict::{Verdict, failed, verdict};
use crate::database::attempts::AttemptNote;
use crate::database::cursor::Ack;
use crate::database::errors::{ErrorClass, classify};
use crate::database::settlement::{self, Burial, Found, Settlement};
use crate::database::transaction::release;
use crate::handler::{HandlerResult, OutboxMessage};
use sea_orm::{DatabaseTransaction, DbErr};
use std::time::{Duration, Instant};

/// Makes a dead letter of a claim's one message, which was tried often enough.
pub(super) async fn bury_exhausted(consumer: &Consumer, claim: &Claim) -> Result<ClaimEnd, DbErr> {
    let message = &claim.messages[0];
    let reason = exhausted_reason(consumer, message).await?;
    let burial = burial(message, claim.attempts.total(), &reason);
    settle(consumer, claim, 1, None, vec![burial]).await?;
    Ok(ClaimEnd::Settled(Next::Again))
}

/// Settles a claim that did not end well: `done` messages are done (some of them rejected), and
/// `result` is that of the next one. A last attempt that fails makes a dead letter of it.
pub(crate) async fn settle_failure(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
    result: HandlerResult,
) -> Result<ClaimEnd, DbErr> {
    let mut burials = burials_of(claim, rejected);
    let mut note = None;
    let mut done = done;
    let mut next = Next::Again;
    if let Some(message) = claim.messages.get(done) {
        match verdict(consumer, message, claim.attempts, result) {
            Verdict::Fine => {}
            Verdict::Again { delay, reason } => {
                next = Next::Later(delay);
                let charged = claim.charge.is_some();
                note = Some(failed(message.sequence(), charged, delay, reason));
            }
            Verdict::Bury(reason) => {
                burials.push(burial(message, claim.attempt(), &reason));
                done += 1;
            }
        }
    }
    settle(consumer, claim, done, note, burials).await?;
    Ok(ClaimEnd::Settled(next))
}

/// The dead letters of messages that a handler rejected.
fn burials_of(claim: &Claim, rejected: Vec<(usize, String)>) -> Vec<Burial> {
    let rejected = rejected.into_iter();
    let burial =
        |(index, reason): (usize, String)| burial(&claim.messages[index], claim.attempt(), &reason);
    rejected.map(burial).collect()
}

/// Settles a claim of which `done` messages are done and nothing counts for the others: the process
/// stops, or they should be claimed anew.
pub(crate) async fn settle_stopped(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
) -> Result<ClaimEnd, DbErr> {
    let burials = burials_of(claim, rejected);
    settle(consumer, claim, done, uncharged(claim, done), burials).await?;
    Ok(ClaimEnd::Settled(Next::Again))
}

/// Gives back a claim of which no handler ran, on the connection in hand if there is one: the pool
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

/// Gives back a claim that was answered when half of its time was over. No message is charged.
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
        release(tx).await;
    }
}

/// Takes back the charge, if there is one and its message is not done.
fn uncharged(claim: &Claim, done: usize) -> Option<AttemptNote> {
    let charge = claim.charge.filter(|_| done == 0)?;
    Some(quarantine::taken_back(charge.seq()))
}

/// Gives a claim back that the database did not let us finish.
///
/// If the connection was lost, a charge stays, and messages that were not charged count as a claim
/// that died. Otherwise a message that ends its connection each time would be tried for ever. A lost
/// race charges no message: the handler returned, and the next try may win. A message that loses
/// many in a row is charged for that by `transactional`.
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

/// Settles a claim of which `done` messages are done, and gives the lease back.
async fn settle(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    note: Option<AttemptNote>,
    burials: Vec<Burial>,
) -> Result<(), DbErr> {
    settle_at(consumer, claim, claim.ack(done), note, burials, None).await
}

/// Settles a claim at any place, in `tx` if there is one. If the lease was lost, takes back the charge
/// of a message whose handler returned in time.
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
    let written = write(consumer, &claim.messages, claim.clock, &outcome, tx).await;
    let charge = claim.charge.and_then(Charge::taken_back_without_lease);
    match (written, charge) {
        (Ok(SettlementEnd::LeaseLost), Some(seq)) => {
            quarantine::take_back(consumer, claim.partition_id, seq).await;
        }
        // The pool had no connection, or the database was gone, until the lease was over.
        (Err(unwritten), Some(seq)) if !unwritten.may_be_done && ends_charge(&outcome, seq) => {
            quarantine::owe(consumer, claim.partition_id, seq);
            return Err(unwritten.error);
        }
        (Err(unwritten), _) => return Err(unwritten.error),
        (Ok(_), _) => {}
    }
    Ok(())
}

/// Whether a settlement says what becomes of the charge of a message. If not, it is to stay.
fn ends_charge(outcome: &Settlement<'_>, seq: i64) -> bool {
    outcome.processed >= seq || outcome.notes.iter().any(|note| note.seq == seq)
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

/// A settlement that could not be written.
pub(super) struct Unwritten {
    pub(super) error: DbErr,
    /// Whether an answer was lost: then it may be written all the same.
    pub(super) may_be_done: bool,
}

/// Writes a settlement. Tries again while the lease may still be ours: what is not written down is
/// done again. The first try is made in `tx`, if there is one.
pub(super) async fn write(
    consumer: &Consumer,
    messages: &[OutboxMessage],
    clock: LeaseClock,
    outcome: &Settlement<'_>,
    mut tx: Option<DatabaseTransaction>,
) -> Result<SettlementEnd, Unwritten> {
    let mut pause = Duration::from_millis(5);
    let (mut refused, mut unanswered) = (0, false);
    loop {
        let error = match try_once(consumer, outcome, tx.take(), unanswered).await {
            Ok(found) => return Ok(end_of(consumer, messages, outcome, unanswered, &found)),
            Err(error) => error,
        };
        unanswered |= quarantine::may_be_done(&error);
        // A refused statement will be refused again; one more try is for luck.
        let is_refused = classify(&error) == ErrorClass::Statement;
        let late = Instant::now() + pause >= clock.over_at();
        if late || is_refused && refused > 0 || consumer.stop.stopped.is_cancelled() {
            let may_be_done = unanswered;
            return Err(Unwritten { error, may_be_done });
        }
        refused += u32::from(is_refused);
        tracing::debug!(%error, "settling failed, trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// One try to write a settlement. If the lease was lost after an answer was lost too, asks whether
/// the earlier try has written it.
async fn try_once(
    consumer: &Consumer,
    outcome: &Settlement<'_>,
    tx: Option<DatabaseTransaction>,
    unanswered: bool,
) -> Result<Found, DbErr> {
    let settled = match tx {
        // Without a permit: the turns that have one may be waiting for this connection.
        Some(tx) => settlement::settle_in(tx, outcome).await?,
        None => {
            let _permit = consumer.statements.acquire().await;
            settlement::settle(&consumer.db, outcome).await?
        }
    };
    match settled {
        Some(letters) => Ok(Found::Settled(letters)),
        // An answer was lost, and maybe with it the news that all is written.
        None if unanswered => {
            let _permit = consumer.statements.acquire().await;
            settlement::find_settled(&consumer.db, outcome).await
        }
        None => Ok(Found::Unknown),
    }
}

/// What became of a settlement. Tells of the dead letters that are written.
fn end_of(
    consumer: &Consumer,
    messages: &[OutboxMessage],
    outcome: &Settlement<'_>,
    unanswered: bool,
    found: &Found,
) -> SettlementEnd {
    match found {
        Found::Settled(letters) => {
            announce(consumer, messages, &outcome.burials, letters);
            SettlementEnd::Written
        }
        Found::Overtaken(letters) => {
            announce(consumer, messages, &outcome.burials, letters);
            match outcome.keep {
                None => SettlementEnd::Written,
                Some(_) => SettlementEnd::Unknown,
            }
        }
        Found::Unknown => {
            let (end, written) = match unanswered {
                false => (SettlementEnd::LeaseLost, "nothing was written"),
                true => (
                    SettlementEnd::Unknown,
                    "the answer was lost too, so it may be written or not",
                ),
            };
            tracing::warn!(
                queue = &*consumer.queue,
                partition = outcome.partition_id.number(),
                consumer = consumer.name,
                "lost the lease; {written}"
            );
            end
        }
    }
}
