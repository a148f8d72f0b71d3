//! Asking the database for a claim. What was done before is acknowledged by the same statement.

use super::claim::ClaimAnswer;
use super::consumer::Consumer;
use super::guard::LeaseClock;
use super::processor::PartitionState;
use super::{quarantine, transaction};
use crate::database::cursor::QuickClaim;
use crate::database::cursor::{self, ClaimRequest, Claimed, Refuse};
use crate::queue::PartitionId;
use sea_orm::DbErr;

/// Acknowledges what is unsaved and claims up to `limit` messages.
pub(super) async fn claim(
    consumer: &Consumer,
    partition_id: PartitionId,
    state: &mut PartitionState,
    limit: u32,
    refuse: Refuse,
) -> Result<ClaimAnswer, DbErr> {
    let request = ClaimRequest {
        partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit,
        most_bytes: consumer.most_bytes(),
        ack: state.unsaved.take(),
        row_version: state.row_version.as_ref(),
        refuse,
        asynchronous_commit: consumer.asynchronous_commit,
    };
    if consumer.is_transactional() {
        return transaction::claim(consumer, request).await;
    }
    if let Some(answer) = claim_together(consumer, &request).await {
        return Ok(answer);
    }
    let permit = consumer.statements.acquire().await;
    let clock = LeaseClock::start(consumer.lease);
    let answer = cursor::claim(&*consumer.connections, &request).await;
    drop(permit);
    match answer {
        Ok(mut claimed) => {
            if request.ack.is_some() && !claimed.acked {
                acknowledgement_was_refused(consumer, &request, &mut claimed).await;
            }
            let tx = None;
            Ok(ClaimAnswer { claimed, clock, tx })
        }
        Err(error) => {
            // It may be saved or not. Saying it again does no harm.
            state.unsaved = request.ack;
            Err(error)
        }
    }
}

/// Claims in one statement with other partitions, in the usual case. `None` says that the claim
/// must be made alone, also after an error.
async fn claim_together(consumer: &Consumer, request: &ClaimRequest<'_>) -> Option<ClaimAnswer> {
    let claims = consumer.claims.as_ref()?;
    let (claimed, began) = claims.claim(QuickClaim::of(request)?).await?;
    Some(ClaimAnswer {
        claimed,
        clock: LeaseClock::since(began, consumer.lease),
        tx: None,
    })
}

/// The acknowledgement did not count: the lease was lost, or the server lost a commit. If a death was
/// charged for it, that is taken back.
async fn acknowledgement_was_refused(
    consumer: &Consumer,
    request: &ClaimRequest<'_>,
    claimed: &mut Claimed,
) {
    let partition_id = request.partition_id;
    if let Some(seq) = request.ack.as_ref().and_then(|ack| ack.charged) {
        quarantine::take_back(consumer, partition_id, seq).await;
        // The new claim read the record before that. This holds too if the charge is still owed.
        let again = claimed.rows.first().is_some_and(|row| row.seq == seq);
        if let Some(attempts) = claimed.attempts.as_mut().filter(|_| again) {
            attempts.deaths -= i32::from(attempts.deaths > 0);
        }
    }
    tracing::warn!(
        queue = &*consumer.queue,
        partition = partition_id.number(),
        consumer = consumer.name,
        "lost the lease; what was done will be delivered again"
    );
}
