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
//! fails then, and before the next message of the batch begins we ask. A nested transaction that a handler leaves open may take the writes
//! of later messages along when it is rolled back: if there is one at the end, all
//! is rolled back and each message has a transaction of its own.

use super::consumer::Consumer;
use super::guard::{self, Ended, LeaseClock, Running};
use super::processor::{Claim, Next, PartitionState, Worked};
use super::settlement::{settle_aborted, settle_failure, settle_stopped};
use crate::dialect::{Dialect, ErrorClass, classify, handler_transaction_options};
use crate::handler::{HandlerResult, Progress};
use crate::store::cursor::{self, ClaimRequest, Claimed, Place};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, TransactionTrait};
use std::ops::Range;
use std::time::Duration;

const BEGIN_SPAN: &str = "SAVEPOINT outbox_span";
const END_SPAN: &str = "RELEASE SAVEPOINT outbox_span";
/// Refused inside a transaction, harmless outside of one: whether there still is
/// one, on MySQL, without touching its savepoints.
const IS_OVER: &str = "SET TRANSACTION READ WRITE";
/// What sqlx calls the savepoint of a nested transaction.
const END_NESTED: &str = "RELEASE SAVEPOINT _sqlx_savepoint_1";
/// Ends the transaction whatever is nested in it, and begins another, which is
/// the one that sqlx then rolls back.
const ABORT: &str = "ROLLBACK AND CHAIN";
/// With the savepoints that sqlx may believe in, as many as a batch of handlers may
/// have left: here it counts only what succeeds, and would give the pool a connection
/// that is still in a transaction.
const ABORT_SQLITE: &str = "\
    ROLLBACK; BEGIN; \
    SAVEPOINT _sqlx_savepoint_1; SAVEPOINT _sqlx_savepoint_2; \
    SAVEPOINT _sqlx_savepoint_3; SAVEPOINT _sqlx_savepoint_4; \
    SAVEPOINT _sqlx_savepoint_5; SAVEPOINT _sqlx_savepoint_6; \
    SAVEPOINT _sqlx_savepoint_7; SAVEPOINT _sqlx_savepoint_8; \
    SAVEPOINT _sqlx_savepoint_9; SAVEPOINT _sqlx_savepoint_10; \
    SAVEPOINT _sqlx_savepoint_11; SAVEPOINT _sqlx_savepoint_12; \
    SAVEPOINT _sqlx_savepoint_13; SAVEPOINT _sqlx_savepoint_14; \
    SAVEPOINT _sqlx_savepoint_15; SAVEPOINT _sqlx_savepoint_16";

pub(crate) async fn work(
    consumer: &Consumer,
    state: &mut PartitionState,
    claim: Claim,
    last: bool,
) -> Result<Worked, DbErr> {
    let total = claim.messages.len();
    let mut done = 0;
    let mut size = total;
    let mut suspect = false;
    let mut alone = false;
    // The next claim is made in the same transaction as long as all goes well.
    let next = if last {
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
        let ran = match run(consumer, &claim, chunk.clone(), chain).await {
            Ok(ran) => ran,
            Err(error) => {
                settle_aborted(consumer, &claim, done, &error).await?;
                return Err(error);
            }
        };
        match ran {
            Ran::Chained(claimed, clock) => {
                state.succeeded(consumer.tuning.batch_size);
                return Ok(Worked::Chained(claimed, clock));
            }
            Ran::Committed(count) => {
                done += count;
                if done == total || claim.clock.is_half_over() {
                    // The rest, if any, has a lease of its own.
                    return settle_stopped(consumer, &claim, done, Vec::new()).await;
                }
                // After the good prefix the suspect goes alone.
                size = if suspect || alone { 1 } else { size * 2 };
                suspect = false;
            }
            Ran::Failed { after, .. } if chunk.len() > 1 => {
                if claim.clock.is_half_over() {
                    state.shrink_to(if after > 0 { after } else { chunk.len() / 2 });
                    return settle_stopped(consumer, &claim, done, Vec::new()).await;
                }
                size = after.max(1);
                suspect = after > 0;
            }
            Ran::Failed { result, .. } => {
                state.failed_after(done, consumer.tuning.degradation_threshold);
                return settle_failure(consumer, &claim, done, Vec::new(), result).await;
            }
            Ran::Unsure => {
                size = 1;
                alone = true;
            }
            Ran::Stopped => return settle_stopped(consumer, &claim, done, Vec::new()).await,
            Ran::Lost => {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "the lease was lost, or a handler left a nested transaction open: rolled back"
                );
                return Ok(Worked::Settled(Next::Busy));
            }
        }
    }
}

/// How a transaction ended.
enum Ran {
    /// Everything is committed, together with the next claim.
    Chained(Claimed, LeaseClock),
    /// So many messages are committed.
    Committed(usize),
    /// Rolled back: so many messages were fine, the next one was not.
    Failed { after: usize, result: HandlerResult },
    /// Rolled back: a handler left a savepoint open, or rolled back to it. The
    /// writes of later messages may be gone with it.
    Unsure,
    /// Rolled back because the process stops.
    Stopped,
    /// Rolled back because somebody else has the lease.
    Lost,
}

async fn run(
    consumer: &Consumer,
    claim: &Claim,
    chunk: Range<usize>,
    chain: Option<(u32, Option<&Place>)>,
) -> Result<Ran, DbErr> {
    let dialect = Dialect::of(&consumer.db)?;
    let options = handler_transaction_options(dialect);
    let tx = consumer.db.begin_with_options(options).await?;
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
        async |running: &Running| {
            let routes = &consumer.routes;
            routes
                .walk(Some(&tx), messages, &mut progress, running, clock)
                .await
        },
        // Not in the middle of a statement.
        async || abort(&tx).await,
    )
    .await;
    let count = progress.settled();
    let result = match ended {
        Ended::Returned(result) => result,
        Ended::Panicked(reason) => HandlerResult::Retry { reason },
        Ended::LeaseOver => HandlerResult::retry(guard::lease_over_text(consumer.lease.duration)),
        Ended::Stopped => {
            roll_back(tx).await;
            return Ok(Ran::Stopped);
        }
    };
    if result != HandlerResult::Success {
        roll_back(tx).await;
        return Ok(if consumer.stop.excuses(&result) {
            Ran::Stopped
        } else {
            Ran::Failed {
                after: count,
                result,
            }
        });
    }
    let whole = count == messages.len();
    // PostgreSQL tells with the claim. Elsewhere there is no such savepoint to
    // release unless a handler left it; that it is not there is an error of no consequence.
    let probe = dialect != Dialect::Postgres && messages.len() > 1;
    if probe && tx.execute_unprepared(END_NESTED).await.is_ok() {
        roll_back(tx).await;
        return Ok(Ran::Unsure);
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
        // The handlers said it went well, the database says otherwise: one of
        // them ignored an error. Lost connections and races are nobody's fault.
        Err(error) if classify(&error) == ErrorClass::Statement => Ok(Ran::Failed {
            after: 0,
            result: HandlerResult::retry(format!(
                "its transaction could not be completed, probably because the handler \
                 ignored an error of the database: {error}"
            )),
        }),
        Err(error) => Err(error),
    }
}

/// Whether the server has ended the transaction by itself, as only MySQL does.
pub(super) async fn is_over(tx: &DatabaseTransaction) -> bool {
    tx.get_database_backend() == DbBackend::MySql && tx.execute_unprepared(IS_OVER).await.is_ok()
}

/// Moves the cursor and commits; the lease stays.
async fn commit(
    consumer: &Consumer,
    claim: &Claim,
    before: usize,
    count: usize,
    tx: DatabaseTransaction,
) -> Result<Ran, DbErr> {
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
        return Ok(Ran::Lost);
    }
    tx.commit().await?;
    if took_effect(consumer, claim, processed).await? {
        Ok(Ran::Committed(count))
    } else {
        Ok(Ran::Lost)
    }
}

/// Whether a commit did what it said: it does not if the handler left a nested
/// transaction open, or if the transaction was aborted.
async fn took_effect(consumer: &Consumer, claim: &Claim, processed: i64) -> Result<bool, DbErr> {
    let written = cursor::processed(&consumer.db, claim.partition_id, &consumer.name).await?;
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
) -> Result<Ran, DbErr> {
    let clock = LeaseClock::start(consumer.lease);
    let request = ClaimRequest {
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit,
        ack: Some(claim.ack(claim.messages.len())),
        place,
        refuse: consumer.refuse(),
        // Never for a commit that carries a user's writes.
        asynchronous: false,
    };
    let processed = claim.processed_after(claim.messages.len());
    let claimed = cursor::claim(&tx, &request).await?;
    if !claimed.acked {
        roll_back(tx).await;
        return Ok(Ran::Lost);
    }
    if !claimed.outermost && claim.messages.len() > 1 {
        roll_back(tx).await;
        return Ok(Ran::Unsure);
    }
    tx.commit().await?;
    if claimed.rows.is_empty() && !took_effect(consumer, claim, processed).await? {
        return Ok(Ran::Lost);
    }
    Ok(Ran::Chained(claimed, clock))
}

/// A rollback that fails, or that waits behind a statement of a handler that was
/// dropped, is left to the connection: it comes before its next use or its end.
async fn roll_back(tx: DatabaseTransaction) {
    abort(&tx).await;
    match tokio::time::timeout(Duration::from_secs(1), tx.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "rolling back"),
        Err(_) => tracing::debug!("rolling back takes long"),
    }
}

/// Ends what a handler has begun, once its statement is over. While a nested transaction is
/// kept by a handler, sqlx would only roll back to its savepoint, and what is before it
/// could be committed later.
///
/// On MySQL it waits long for the statement: one that is dropped while the server prepares
/// it leaves a connection that answers nothing any more and that the pool never gets back.
pub(super) async fn abort(tx: &DatabaseTransaction) {
    let (abort, patience) = match tx.get_database_backend() {
        DbBackend::MySql => (ABORT, Duration::from_secs(10)),
        DbBackend::Sqlite => (ABORT_SQLITE, Duration::from_secs(1)),
        _ => (ABORT, Duration::from_secs(1)),
    };
    if let Ok(Err(error)) = tokio::time::timeout(patience, tx.execute_unprepared(abort)).await {
        tracing::debug!(%error, "rolling back");
    }
}
