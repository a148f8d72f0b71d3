//! At least once: the handler runs outside any transaction, under the lease.

use super::guard::{self, Ended};
use super::processor::{Claim, Consumer, Handler, PartitionState, Worked};
use super::settlement::{settle_failure, settle_stopped};
use crate::handler::{Batch, Ctx, HandlerResult, LeasedMessageHandler};
use sea_orm::DbErr;

pub(crate) async fn work(
    consumer: &Consumer,
    state: &mut PartitionState,
    claim: Claim,
) -> Result<Worked, DbErr> {
    let mut batch = Batch::new(claim.messages.clone());
    let clock = claim.clock;
    let ended = guard::run(
        &consumer.stop,
        clock,
        &consumer.states,
        async |ctx: &Ctx| {
            if batch.is_empty() {
                return HandlerResult::Success;
            }
            match &consumer.handler {
                Handler::LeasedBatch(handler) => handler.handle(&mut batch, ctx).await,
                Handler::LeasedEach(handler) => {
                    each(&**handler, &mut batch, ctx, || clock.is_half_over()).await
                }
                Handler::TransactionalEach(_) | Handler::TransactionalBatch(_) => {
                    HandlerResult::Success
                }
            }
        },
    )
    .await;
    let result = match ended {
        Ended::Returned(HandlerResult::Success) => {
            if batch.processed() == 0 {
                batch.ack_shown();
            }
            if batch.processed() == 0 && !batch.is_empty() {
                // Nothing was taken, so nothing was handled: that must not be lost,
                // nor go round for ever.
                HandlerResult::retry("the handler returned Success without taking a message")
            } else {
                HandlerResult::Success
            }
        }
        Ended::Returned(failed) => failed,
        Ended::Panicked(text) => HandlerResult::Retry { reason: text },
        Ended::LeaseOver => HandlerResult::retry(guard::lease_over_text(consumer.lease.duration)),
        Ended::Stopped => HandlerResult::retry("stopped"),
    };
    if consumer.stop.excuses(&result) {
        let rejected = batch.take_rejected();
        return settle_stopped(consumer, &claim, batch.processed(), rejected).await;
    }
    let (done, rejected) = (batch.processed(), batch.take_rejected());
    let failed = result != HandlerResult::Success && done < batch.len();
    if failed || !rejected.is_empty() {
        state.failed_after(done, consumer.tuning.degradation_threshold);
        return settle_failure(consumer, &claim, done, rejected, result).await;
    }
    state.succeeded(consumer.tuning.batch_size);
    if done < batch.len() {
        // It came to a part only: keep that, and claim the rest anew.
        return settle_failure(consumer, &claim, done, rejected, HandlerResult::Success).await;
    }
    Ok(Worked::Done(claim.ack(done)))
}

/// One message at a time, up to the first that fails; a rejected one is left
/// behind. Ends early if the rest should have a lease of its own.
async fn each(
    handler: &dyn LeasedMessageHandler,
    batch: &mut Batch,
    ctx: &Ctx,
    enough: impl Fn() -> bool,
) -> HandlerResult {
    while !(batch.processed() > 0 && (enough() || ctx.cancellation().is_cancelled())) {
        let Some(message) = batch.next_msg() else {
            return HandlerResult::Success;
        };
        match handler.handle(message, ctx).await {
            HandlerResult::Success => batch.ack(),
            HandlerResult::Reject { reason } => batch.reject(reason),
            retry => return retry,
        }
    }
    HandlerResult::Success
}
