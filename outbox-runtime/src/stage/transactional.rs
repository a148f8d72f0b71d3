//! Exactly once with the database: handlers' writes and the cursor's move are
//! one transaction, whose last statement checks the lease.
//!
//! On a failure the transaction is rolled back, the good prefix is run and
//! committed again, and the failing message goes on alone; only alone is its
//! failure believed, because a handler that ignores a database error makes the
//! next one fail. There are no savepoints: a nested transaction that a handler
//! keeps could release ours under its feet.

use super::guard::{self, Ended, LeaseClock};
use super::processor::{Claim, Consumer, Handler, Next, PartitionState, Worked};
use super::settlement::{settle_failure, settle_stopped};
use crate::dialect::{Dialect, ErrorClass, classify, handler_transaction_options};
use crate::handler::{Ctx, HandlerResult, OutboxMessage};
use crate::store::cursor::{self, ClaimRequest, Claimed};
use sea_orm::{DatabaseTransaction, DbErr, TransactionTrait};
use std::ops::Range;

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
        let chain = (chunk == (0..total)).then_some(next);
        match run(consumer, &claim, chunk.clone(), chain).await? {
            Ran::Committed(Some((claimed, clock))) => {
                state.succeeded(consumer.tuning.batch_size);
                return Ok(Worked::Chained(claimed, clock));
            }
            Ran::Committed(None) => {
                done = chunk.end;
                if done == total {
                    return settle_stopped(consumer, &claim, done, Vec::new()).await;
                }
                // After the good prefix the suspect goes alone.
                size = if suspect { 1 } else { size * 2 };
                suspect = false;
            }
            Ran::Failed { after, .. } if chunk.len() > 1 => {
                size = after.max(1);
                suspect = after > 0;
            }
            Ran::Failed { result, .. } => {
                state.failed_after(done, consumer.tuning.degradation_threshold);
                return settle_failure(consumer, &claim, done, Vec::new(), result).await;
            }
            Ran::Stopped => return settle_stopped(consumer, &claim, done, Vec::new()).await,
            Ran::LeaseLost => {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "lost the lease, or a handler left a nested transaction open; rolled back"
                );
                return Ok(Worked::Settled(Next::Busy));
            }
        }
    }
}

/// How a transaction ended.
enum Ran {
    /// Committed; with the next claim if it was made in it.
    Committed(Option<(Claimed, LeaseClock)>),
    /// Rolled back: so many messages were fine, the next one was not.
    Failed {
        after: usize,
        result: HandlerResult,
    },
    Stopped,
    LeaseLost,
}

async fn run(
    consumer: &Consumer,
    claim: &Claim,
    chunk: Range<usize>,
    chain: Option<u32>,
) -> Result<Ran, DbErr> {
    let options = handler_transaction_options(Dialect::of(&consumer.db)?);
    let tx = consumer.db.begin_with_options(options).await?;
    let messages = &claim.messages[chunk.clone()];
    let ended = guard::run(
        &consumer.stop,
        claim.clock,
        &consumer.states,
        async |ctx: &Ctx| handle(&consumer.handler, &tx, messages, ctx).await,
    )
    .await;
    let (after, result) = match ended {
        Ended::Returned(returned) => returned,
        Ended::Panicked(reason) => (0, HandlerResult::Retry { reason }),
        Ended::LeaseOver => {
            let text = guard::lease_over_text(consumer.lease.duration);
            (0, HandlerResult::retry(text))
        }
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
            Ran::Failed { after, result }
        });
    }
    let committed = match chain {
        Some(limit) => commit_and_claim(consumer, claim, limit, tx).await,
        None => commit(consumer, claim, chunk.end, tx).await,
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

/// Runs the handler; returns how many messages went well and what ended it.
async fn handle(
    handler: &Handler,
    tx: &DatabaseTransaction,
    messages: &[OutboxMessage],
    ctx: &Ctx,
) -> (usize, HandlerResult) {
    match handler {
        Handler::TransactionalBatch(handler) if !messages.is_empty() => {
            (0, handler.handle(tx, messages, ctx).await)
        }
        Handler::TransactionalEach(handler) => {
            for (index, message) in messages.iter().enumerate() {
                match handler.handle(tx, message, ctx).await {
                    HandlerResult::Success => {}
                    failed => return (index, failed),
                }
            }
            (messages.len(), HandlerResult::Success)
        }
        _ => (messages.len(), HandlerResult::Success),
    }
}

/// Moves the cursor and commits; the lease stays.
async fn commit(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    tx: DatabaseTransaction,
) -> Result<Ran, DbErr> {
    let processed = claim.processed_after(done);
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
        return Ok(Ran::LeaseLost);
    }
    tx.commit().await?;
    let written = cursor::processed(&consumer.db, claim.partition_id, &consumer.name).await?;
    if written < processed {
        return Ok(Ran::LeaseLost);
    }
    Ok(Ran::Committed(None))
}

/// Moves the cursor, claims the next batch and commits both with the handlers'
/// writes. Should the commit not take effect, the next batch's lease check fails.
async fn commit_and_claim(
    consumer: &Consumer,
    claim: &Claim,
    limit: u32,
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
        // Never for a commit that carries a user's writes.
        asynchronous: false,
    };
    let claimed = cursor::claim(&tx, &request).await?;
    if !claimed.acked {
        roll_back(tx).await;
        return Ok(Ran::LeaseLost);
    }
    tx.commit().await?;
    Ok(Ran::Committed(Some((claimed, clock))))
}

/// A rollback that fails ends with the connection: the server rolls back then.
async fn roll_back(tx: DatabaseTransaction) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!(%error, "rolling back");
    }
}
