//! Exactly once with the database: handlers' writes and the cursor's move are
//! one transaction, whose last statement checks the lease.
//!
//! On a failure the transaction is rolled back, the good prefix is run and
//! committed again, and the failing message goes on alone; only alone is its
//! failure believed, because a handler that ignores a database error makes the
//! next one fail. There is no savepoint per message: a nested transaction that a
//! handler keeps could release it under our feet. On MySQL one savepoint spans the
//! whole transaction: there a deadlock ends the transaction, and if the handler
//! does not say so, what follows would commit by itself; releasing the savepoint
//! fails then, and before the next message of the batch begins we ask. A nested
//! transaction that a handler leaves open may take the writes of later messages along
//! when it is rolled back: if there is one at the end, all is rolled back and each
//! message has a transaction of its own.
//!
//! The first transaction of a claim is in hand before the claim is made
//! ([`transaction`](super::transaction)).

use super::claim::{Claim, ClaimAnswer, ClaimEnd};
use super::consumer::Consumer;
use super::guard::{self, AttemptEnd, LeaseClock, RunContext};
use super::processor::{Next, PartitionState};
use super::quarantine::{self, Charge};
use super::settlement::{give_back_late, settle_aborted, settle_failure, settle_stopped};
use super::transaction::{abort, begin, commit_and_begin, has_nested, is_sqlite, roll_back};
use crate::database::cursor::{self, ClaimRequest, Place};
use crate::database::dialect::{Dialect, ErrorClass, classify};
use crate::handler::{HandlerResult, Progress};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};
use std::ops::Range;

const BEGIN_SPAN: &str = "SAVEPOINT outbox_span";
const END_SPAN: &str = "RELEASE SAVEPOINT outbox_span";

/// After so many commits in a row that lost a race, the message is charged: it may never win.
const LOST_RACES: u32 = 5;

pub(crate) async fn work(
    consumer: &Consumer,
    state: &mut PartitionState,
    mut claim: Claim,
    mut tx: Option<DatabaseTransaction>,
    last: bool,
) -> Result<ClaimEnd, DbErr> {
    if quarantine::must_charge(&claim) {
        let charged = match quarantine::charge_in(consumer, &mut claim, tx.take()).await {
            Ok(Some(charged)) => charged,
            Ok(None) => return Ok(ClaimEnd::Settled(Next::Busy)),
            // No handler ran: nobody is charged.
            Err(error) => {
                settle_stopped(consumer, &claim, 0, Vec::new()).await?;
                return Err(error);
            }
        };
        if claim.clock.is_half_over() {
            return give_back_late(consumer, &claim, Some(charged)).await;
        }
        tx = Some(charged);
    }
    let total = claim.messages.len();
    let mut done = 0;
    let mut size = total;
    let mut suspect = false;
    let mut alone = false;
    // The next claim is made in the same transaction as long as all goes well, unless there
    // is a pause before it, which must not be spent in a transaction.
    let paced = !consumer.tuning.active_interval.is_zero();
    let next = if last || paced {
        0
    } else {
        state
            .limit
            .saturating_mul(2)
            .min(consumer.tuning.batch_size)
    };
    loop {
        let chunk = done..(done + size).min(total);
        let chain = (chunk == (0..total)).then_some((next, state.place.as_ref()));
        let tx = match tx.take() {
            Some(tx) => tx,
            None => match begin(consumer).await {
                Ok(tx) => tx,
                // No handler ran: nobody is charged.
                Err(error) => {
                    settle_stopped(consumer, &claim, done, Vec::new()).await?;
                    return Err(error);
                }
            },
        };
        let ran = match run(consumer, &mut claim, tx, chunk.clone(), chain).await {
            Ok(TransactionEnd::Raced(error)) if state.lost_races >= LOST_RACES => {
                charge_for_races(consumer, &claim, &error, chunk.len() == 1)
            }
            Ok(ran) => ran,
            Err(error) => {
                settle_aborted(consumer, &claim, done, &error).await?;
                return Err(error);
            }
        };
        match ran {
            TransactionEnd::Chained(found) => {
                state.lost_races = 0;
                state.succeeded(consumer.tuning.batch_size);
                state.shrink_if_cut(&found.claimed);
                if paced && !last {
                    state.place = found.claimed.place;
                    return Ok(ClaimEnd::Settled(Next::Again));
                }
                return Ok(ClaimEnd::Chained(found));
            }
            TransactionEnd::Committed(count) => {
                state.lost_races = 0;
                done += count;
                if done == total || claim.clock.is_half_over() {
                    // The rest, if any, has a lease of its own.
                    return settle_stopped(consumer, &claim, done, Vec::new()).await;
                }
                // After the good prefix the suspect goes alone.
                size = if suspect || alone { 1 } else { size * 2 };
                suspect = false;
            }
            TransactionEnd::Failed { after, .. } if chunk.len() > 1 => {
                if claim.clock.is_half_over() {
                    state.shrink_to(if after > 0 { after } else { chunk.len() / 2 });
                    return settle_stopped(consumer, &claim, done, Vec::new()).await;
                }
                size = after.max(1);
                suspect = after > 0;
            }
            TransactionEnd::Failed { result, .. } => {
                state.failed_after(done, consumer.tuning.degradation_threshold);
                let settled = settle_failure(consumer, &claim, done, Vec::new(), result).await?;
                if matches!(settled, ClaimEnd::Settled(Next::Again)) {
                    // It is buried; its races are none of the next message's.
                    state.lost_races = 0;
                }
                return Ok(settled);
            }
            TransactionEnd::Unsure => {
                size = 1;
                alone = true;
            }
            TransactionEnd::Raced(error) => {
                state.lost_races += 1;
                settle_aborted(consumer, &claim, done, &error).await?;
                return Err(error);
            }
            TransactionEnd::Stopped => {
                return settle_stopped(consumer, &claim, done, Vec::new()).await;
            }
            TransactionEnd::Lost => {
                if let Some(seq) = claim.charge.and_then(Charge::taken_back_without_lease) {
                    quarantine::take_back(consumer, claim.partition_id, seq).await;
                }
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "the lease was lost: rolled back"
                );
                return Ok(ClaimEnd::Settled(Next::Busy));
            }
            TransactionEnd::LeftOpen => {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "a handler left a nested transaction open: rolled back"
                );
                return Ok(ClaimEnd::Settled(Next::Busy));
            }
        }
    }
}

/// A transaction that could not be committed once more. A message is charged for that if it is
/// alone; several are split.
fn charge_for_races(
    consumer: &Consumer,
    claim: &Claim,
    error: &DbErr,
    alone: bool,
) -> TransactionEnd {
    if alone {
        tracing::warn!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            %error,
            "a handler's transaction lost a race more than {LOST_RACES} times in a row at its \
             commit; from now on that counts as a failed attempt"
        );
    }
    let reason =
        format!("its transaction could not be committed more than {LOST_RACES} times: {error}");
    TransactionEnd::failed(HandlerResult::retry(reason))
}

/// How a transaction ended.
enum TransactionEnd {
    /// Everything is committed, together with the next claim.
    Chained(ClaimAnswer),
    /// So many messages are committed.
    Committed(usize),
    /// Rolled back: so many messages were fine, the next one was not.
    Failed { after: usize, result: HandlerResult },
    /// Rolled back: a handler left a savepoint open, or rolled back to it. The
    /// writes of later messages may be gone with it.
    Unsure,
    /// Rolled back: the handlers said it went well, and the commit lost a race.
    Raced(DbErr),
    /// Rolled back because the process stops.
    Stopped,
    /// Rolled back because somebody else has the lease.
    Lost,
    /// Rolled back because a handler left a nested transaction open, or did not say that the
    /// transaction is over.
    LeftOpen,
}

impl TransactionEnd {
    /// Rolled back because a handler left a nested transaction open: which of several
    /// messages did, is not known.
    fn nested(messages: usize) -> Self {
        if messages > 1 {
            Self::Unsure
        } else {
            Self::LeftOpen
        }
    }

    /// Rolled back, and nothing is known to be fine.
    fn failed(result: HandlerResult) -> Self {
        Self::Failed { after: 0, result }
    }
}

async fn run(
    consumer: &Consumer,
    claim: &mut Claim,
    tx: DatabaseTransaction,
    chunk: Range<usize>,
    chain: Option<(u32, Option<&Place>)>,
) -> Result<TransactionEnd, DbErr> {
    let dialect = Dialect::of(&consumer.db)?;
    let spanned = dialect == Dialect::MySql;
    if spanned {
        tx.execute_unprepared(BEGIN_SPAN).await?;
    }
    let messages = &claim.messages[chunk.clone()];
    let clock = claim.clock;
    let mut progress = Progress::default();
    let ended = guard::run(
        &consumer.stop,
        clock,
        &consumer.states,
        async |context: &RunContext| {
            let routes = &consumer.routes;
            routes
                .walk(Some(&tx), messages, &mut progress, context, clock)
                .await
        },
        // Not in the middle of a statement.
        async || abort(&tx).await,
    )
    .await;
    let count = progress.settled();
    claim.set_overran(clock.has_overrun(&ended));
    let messages = &claim.messages[chunk.clone()];
    let attempt = ended.attempt(consumer.lease.duration);
    if !matches!(attempt, AttemptEnd::Result(HandlerResult::Success)) {
        roll_back(tx).await;
        return Ok(match consumer.stop.excuse(attempt) {
            AttemptEnd::Stopped => TransactionEnd::Stopped,
            AttemptEnd::Result(result) => TransactionEnd::Failed {
                after: count,
                result,
            },
        });
    }
    let whole = count == messages.len();
    // PostgreSQL tells with the claim.
    if dialect != Dialect::Postgres && has_nested(&tx).await {
        roll_back(tx).await;
        return Ok(TransactionEnd::nested(messages.len()));
    }
    let span = if spanned {
        tx.execute_unprepared(END_SPAN).await.map(drop)
    } else {
        Ok(())
    };
    let committed = match (span, chain) {
        (Err(error), _) => Err(error),
        (Ok(()), Some((limit, place))) if whole => {
            commit_and_claim(consumer, claim, limit, place, tx).await
        }
        (Ok(()), _) => commit(consumer, claim, chunk.start, count, tx).await,
    };
    match committed {
        Ok(ran) => Ok(ran),
        // Nobody's fault, unless it happens again and again.
        Err(error) if classify(&error) == ErrorClass::Race => Ok(TransactionEnd::Raced(error)),
        // The handlers said it went well, the database says otherwise: one of
        // them ignored an error. A lost connection is nobody's fault.
        Err(error) if classify(&error) == ErrorClass::Statement => {
            Ok(TransactionEnd::failed(HandlerResult::retry(format!(
                "its transaction could not be completed, probably because the handler ignored an \
             error of the database: {error}"
            ))))
        }
        Err(error) => Err(error),
    }
}

/// Moves the cursor and commits; the lease stays.
async fn commit(
    consumer: &Consumer,
    claim: &Claim,
    before: usize,
    count: usize,
    tx: DatabaseTransaction,
) -> Result<TransactionEnd, DbErr> {
    let processed = claim.processed_after(before + count);
    let held = cursor::advance(
        &tx,
        claim.partition_id,
        &consumer.name,
        &consumer.owner,
        claim.epoch,
        processed,
    )
    .await?;
    if !held {
        roll_back(tx).await;
        return Ok(TransactionEnd::Lost);
    }
    tx.commit().await?;
    if took_effect(&consumer.db, consumer, claim, processed).await? {
        Ok(TransactionEnd::Committed(count))
    } else {
        Ok(TransactionEnd::LeftOpen)
    }
}

/// Whether a commit did what it said: it does not if the handler left a nested
/// transaction open, or if the transaction was aborted.
async fn took_effect<C: ConnectionTrait>(
    conn: &C,
    consumer: &Consumer,
    claim: &Claim,
    processed: i64,
) -> Result<bool, DbErr> {
    let written = cursor::processed(conn, claim.partition_id, &consumer.name).await?;
    Ok(written >= processed)
}

/// Moves the cursor, claims the next batch and commits both with the handlers'
/// writes. Should the commit not take effect, the next batch's lease check fails;
/// if there is no next batch, the cursor is asked.
async fn commit_and_claim(
    consumer: &Consumer,
    claim: &Claim,
    limit: u32,
    place: Option<&Place>,
    tx: DatabaseTransaction,
) -> Result<TransactionEnd, DbErr> {
    let clock = LeaseClock::start(consumer.lease);
    let request = ClaimRequest {
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit,
        most_bytes: consumer.most_bytes(),
        ack: Some(claim.ack(claim.messages.len())),
        place,
        refuse: quarantine::refused_beside_others(consumer),
        // Never for a commit that carries a user's writes.
        asynchronous: false,
    };
    let processed = claim.processed_after(claim.messages.len());
    let claimed = cursor::claim(&tx, &request).await?;
    if !claimed.acked {
        roll_back(tx).await;
        return Ok(TransactionEnd::Lost);
    }
    if !claimed.outermost {
        roll_back(tx).await;
        return Ok(TransactionEnd::nested(claim.messages.len()));
    }
    let tx = if claimed.rows.is_empty() || is_sqlite(consumer) {
        tx.commit().await?;
        if claimed.rows.is_empty()
            && !took_effect(&*consumer.kept, consumer, claim, processed).await?
        {
            return Ok(TransactionEnd::LeftOpen);
        }
        None
    } else {
        Some(commit_and_begin(tx).await?)
    };
    Ok(TransactionEnd::Chained(ClaimAnswer { claimed, clock, tx }))
}
