//! Messages suspected of killing their process.
//!
//! When a process dies, every message that it had claimed is a suspect: the cursor says
//! `claimed > processed` under a lease that is over. Suspects are claimed one at a time. Immediately
//! before the handler of a suspect runs, a death is charged and committed, because afterwards it may
//! be too late. A handler that returns has its charge taken back, or turned into a failure; one that
//! kills its process leaves it behind. A message with as many deaths as it may have attempts becomes
//! a dead letter.
//!
//! A process that lives takes its charge back also when it has lost the lease: then the database
//! was slow, and the message did nothing. It does not where the handler did not return in time: a
//! handler that blocks until its lease is lost, each time, must come to an end too. Nor does it where
//! an answer was lost, and with it whether there is a charge: then one may stay that should not.

use super::claim::Claim;
use super::consumer::Consumer;
use crate::database::attempts;
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DbErr};

/// Whether a death must be charged before this claim's handler runs.
pub(super) fn must_charge(claim: &Claim) -> bool {
    claim.recovering.is_some() && !claim.messages.is_empty() && !claim.charged
}

/// Charges the one message of a claim with a death; the claim is charged once that is committed.
/// False if the lease was lost. After an error it may be charged or not.
pub(super) async fn charge<C: ConnectionTrait>(
    consumer: &Consumer,
    conn: &C,
    claim: &Claim,
) -> Result<bool, DbErr> {
    let Some(message) = claim.messages.first() else {
        return Ok(true);
    };
    let lease = (&*consumer.owner, claim.epoch);
    let (partition_id, name) = (claim.partition_id, &consumer.name);
    let held = attempts::charge(conn, partition_id, name, lease, message.sequence()).await?;
    if !held {
        tracing::warn!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            "lost the lease before the handler ran; nothing was done"
        );
    }
    Ok(held)
}

/// Takes a charge back after the lease was lost. If the database does not answer, the charge stays.
pub(super) async fn take_back(consumer: &Consumer, partition_id: PartitionId, seq: i64) {
    let _permit = consumer.statements.acquire().await;
    let taken = attempts::take_back(&consumer.db, partition_id, &consumer.name, seq);
    if let Err(error) = taken.await {
        tracing::warn!(
            queue = &*consumer.queue,
            consumer = consumer.name,
            sequence = seq,
            %error,
            "a message stays charged with a death that it did not cause"
        );
    }
}
