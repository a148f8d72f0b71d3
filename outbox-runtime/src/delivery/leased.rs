//! At least once: handlers run outside any transaction, under the lease.

use super::claim::{Claim, ClaimEnd};
use super::consumer::Consumer;
use super::guard::{self, AttemptEnd, RunContext};
use super::processor::{Next, PartitionState};
use super::quarantine;
use super::settlement::{give_back_late, settle_failure, settle_stopped};
use crate::handler::{HandlerResult, Progress};
use sea_orm::DbErr;

/// Runs the handlers of a claim. A suspect is charged before.
pub(crate) async fn work(
    consumer: &Consumer,
    state: &mut PartitionState,
    mut claim: Claim,
) -> Result<ClaimEnd, DbErr> {
    if quarantine::must_charge(&claim) {
        if !quarantine::charge_from_pool(consumer, &mut claim).await? {
            return Ok(ClaimEnd::Settled(Next::Busy));
        }
        if claim.clock.is_half_over() {
            return give_back_late(consumer, &claim, None).await;
        }
    }
    #[cfg(feature = "sabotage")]
    super::sabotage::ack_first(consumer, &claim).await?;
    let mut progress = Progress::default();
    let (messages, clock) = (&claim.messages, claim.clock);
    let ended = guard::run(
        &consumer.stop,
        clock,
        &consumer.states,
        async |context: &RunContext| {
            let routes = &consumer.routes;
            routes
                .walk(None, messages, &mut progress, context, clock)
                .await
        },
        guard::nothing,
    )
    .await;
    claim.set_overran(clock.has_overrun(&ended));
    let (done, rejected) = (progress.settled(), progress.take_rejected());
    let attempt = ended.attempt(consumer.lease.duration);
    let AttemptEnd::Result(result) = consumer.stop.excuse(attempt) else {
        return settle_stopped(consumer, &claim, done, rejected).await;
    };
    let messages = &claim.messages;
    let failed = result != HandlerResult::Success && done < messages.len();
    if failed && progress.is_ambiguous() {
        // The failure may be that of any of several messages: it is believed once one is alone.
        state.shrink_to(1);
        return settle_stopped(consumer, &claim, done, rejected).await;
    }
    if failed || !rejected.is_empty() {
        state.failed_after(done, consumer.tuning.degradation_threshold);
        return settle_failure(consumer, &claim, done, rejected, result).await;
    }
    state.succeeded(consumer.tuning.batch_size);
    if done < messages.len() {
        // The handler came to a part only: keep that, and claim the rest anew.
        return settle_failure(consumer, &claim, done, rejected, HandlerResult::Success).await;
    }
    Ok(ClaimEnd::Done(claim.ack(done)))
}
