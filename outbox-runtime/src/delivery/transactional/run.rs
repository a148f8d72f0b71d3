//! One transaction of handlers: it runs them, moves the cursor, and commits.

use crate::database::cursor::{self, ClaimRequest, Refuse, RowVersion};
use crate::database::errors::{ErrorClass, classify};
use crate::database::transaction::{
    abort, begin_span, claims_on_handlers_connection, commit_and_begin, end_span, has_nested,
    roll_back,
};
use crate::delivery::claim::{Claim, ClaimAnswer};
use crate::delivery::consumer::Consumer;
use crate::delivery::guard::{self, AttemptEnd, LeaseClock, RunContext};
use crate::handler::{HandlerResult, Progress};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};
use std::ops::Range;

/// How a transaction ended.
pub(super) enum TransactionEnd {
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
    /// Rolled back because the lease was lost.
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
    pub(super) fn failed(result: HandlerResult) -> Self {
        Self::Failed { after: 0, result }
    }
}

/// The next claim, which is made in the transaction of the handlers.
pub(super) struct Chain<'a> {
    /// How many messages.
    pub(super) limit: u32,
    /// The row version of the cursor.
    pub(super) row_version: Option<&'a RowVersion>,
    /// Which suspects it leaves alone.
    pub(super) refuse: Refuse,
}

/// Runs the handlers of a chunk of the claim's messages, and commits. `chain` is there if the next
/// claim is to be made in the same transaction.
pub(super) async fn run(
    consumer: &Consumer,
    claim: &mut Claim,
    tx: DatabaseTransaction,
    chunk: Range<usize>,
    chain: Option<Chain<'_>>,
) -> Result<TransactionEnd, DbErr> {
    begin_span(&tx).await?;
    let (attempt, count) = call_handlers(consumer, claim, &tx, chunk.clone()).await;
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
    let whole = count == chunk.len();
    if has_nested(&tx).await? {
        roll_back(tx).await;
        return Ok(TransactionEnd::nested(chunk.len()));
    }
    let committed = match (end_span(&tx).await, chain) {
        (Err(error), _) => Err(error),
        (Ok(()), Some(chain)) if whole => commit_and_claim(consumer, claim, chain, tx).await,
        (Ok(()), _) => commit(consumer, claim, chunk.start, count, tx).await,
    };
    committed.or_else(not_committed)
}

/// Calls the handlers. Returns what counts of that, and how many messages are fine.
async fn call_handlers(
    consumer: &Consumer,
    claim: &mut Claim,
    tx: &DatabaseTransaction,
    chunk: Range<usize>,
) -> (AttemptEnd, usize) {
    let messages = &claim.messages[chunk];
    let clock = claim.clock;
    let mut progress = Progress::default();
    let ended = guard::run(
        &consumer.stop,
        clock,
        &consumer.states,
        async |context: &RunContext| {
            let routes = &consumer.routes;
            routes
                .walk(Some(tx), messages, &mut progress, context, clock)
                .await
        },
        // Not in the middle of a statement.
        async || abort(tx).await,
    )
    .await;
    claim.set_overran(clock.has_overrun(&ended));
    (ended.attempt(consumer.lease.duration), progress.settled())
}

/// What it means that a transaction could not be committed although its handlers said that all
/// went well.
fn not_committed(error: DbErr) -> Result<TransactionEnd, DbErr> {
    match classify(&error) {
        // No handler's fault, unless it happens again and again.
        ErrorClass::Race => Ok(TransactionEnd::Raced(error)),
        // One of the handlers ignored an error of the database.
        ErrorClass::Statement => Ok(TransactionEnd::failed(HandlerResult::retry(format!(
            "its transaction could not be completed, probably because the handler ignored an \
             error of the database: {error}"
        )))),
        // A lost connection says nothing of the handlers.
        ErrorClass::Connection => Err(error),
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
    chain: Chain<'_>,
    tx: DatabaseTransaction,
) -> Result<TransactionEnd, DbErr> {
    let clock = LeaseClock::start(consumer.lease);
    let request = ClaimRequest {
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit: chain.limit,
        most_bytes: consumer.most_bytes(),
        ack: Some(claim.ack(claim.messages.len())),
        row_version: chain.row_version,
        refuse: chain.refuse,
        // Never for a commit that carries a user's writes.
        asynchronous_commit: false,
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
    let keep = claims_on_handlers_connection(&consumer.db)?;
    let tx = if claimed.rows.is_empty() || !keep {
        tx.commit().await?;
        if claimed.rows.is_empty()
            && !took_effect(&*consumer.connections, consumer, claim, processed).await?
        {
            return Ok(TransactionEnd::LeftOpen);
        }
        None
    } else {
        Some(commit_and_begin(tx).await?)
    };
    Ok(TransactionEnd::Chained(ClaimAnswer { claimed, clock, tx }))
}
