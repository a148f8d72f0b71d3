//! Charging a suspect with a death, and the notes that do so or take it back under the lease.

use crate::database::attempts::{self, AttemptChange, AttemptNote};
use crate::database::transaction::{begin_for_handlers, commit_and_begin, release};
use crate::delivery::claim::Claim;
use crate::delivery::consumer::Consumer;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr};

/// A death that is on record for a message, which the message has not died.
#[derive(Clone, Copy)]
pub(crate) struct Charge {
    seq: i64,
    /// Whether the handler did not return in time.
    overran: bool,
}

impl Charge {
    /// Only once it is committed.
    pub(super) fn on_record(seq: i64) -> Self {
        let overran = false;
        Self { seq, overran }
    }

    /// Remembers whether the handler did not return in time.
    pub(crate) fn set_overran(&mut self, overran: bool) {
        self.overran = overran;
    }

    /// The message that is charged.
    pub(crate) fn seq(self) -> i64 {
        self.seq
    }

    /// The message, if its charge is taken back although the lease was lost. It is not if the
    /// handler did not return in time.
    pub(crate) fn taken_back_without_lease(self) -> Option<i64> {
        (!self.overran).then_some(self.seq)
    }
}

/// Whether a death must be charged before this claim's handler runs.
pub(crate) fn must_charge(claim: &Claim) -> bool {
    claim.recovering.is_some() && !claim.messages.is_empty() && claim.charge.is_none()
}

/// Charges a suspect whose handler runs outside any transaction. False if the lease was lost.
pub(crate) async fn charge_from_pool(
    consumer: &Consumer,
    claim: &mut Claim,
) -> Result<bool, DbErr> {
    let permit = consumer.statements.acquire().await;
    let held = charge(consumer, &consumer.db, claim).await?;
    drop(permit);
    if held {
        note_charge(claim);
    }
    Ok(held)
}

/// Charges a suspect on the connection of its handler, and commits that. Returns the connection
/// with a new transaction, or `None` if the lease was lost.
///
/// Where the claim was not made on that connection, an error could come after the commit: there the
/// engine commits and begins in two steps. So the charge is a statement of its own, of which it is
/// known whether it is written, and the connection is taken afterwards.
pub(crate) async fn charge_in(
    consumer: &Consumer,
    claim: &mut Claim,
    tx: Option<DatabaseTransaction>,
) -> Result<Option<DatabaseTransaction>, DbErr> {
    let Some(tx) = tx else {
        return match charge_from_pool(consumer, claim).await? {
            true => begin_for_handlers(&consumer.db).await.map(Some),
            false => Ok(None),
        };
    };
    match charge(consumer, &tx, claim).await {
        Ok(true) => {
            let tx = commit_and_begin(tx).await?;
            note_charge(claim);
            Ok(Some(tx))
        }
        Ok(false) => {
            release(tx).await;
            Ok(None)
        }
        Err(error) => {
            release(tx).await;
            Err(error)
        }
    }
}

/// Charges the one message of a claim with a death; the claim is charged once that is committed.
/// False if the lease was lost. After an error it may be charged or not.
async fn charge<C: ConnectionTrait>(
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

/// The claim's message is charged from now on, and has a record.
fn note_charge(claim: &mut Claim) {
    let first = claim.messages.first();
    claim.charge = first.map(|message| Charge::on_record(message.sequence()));
    claim.recorded = true;
}

/// A note that charges a message, to be written under the lease.
pub(super) fn charged(seq: i64) -> AttemptNote {
    let change = AttemptChange::Charged;
    AttemptNote { seq, change }
}

/// A note that takes a charge back, to be written under the lease.
pub(crate) fn taken_back(seq: i64) -> AttemptNote {
    let change = AttemptChange::TakenBack;
    AttemptNote { seq, change }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_lease_a_charge_is_taken_back_only_if_the_handler_returned_in_time() {
        let mut charge = Charge::on_record(7);
        assert_eq!(charge.taken_back_without_lease(), Some(7));
        charge.set_overran(true);
        assert_eq!((charge.seq(), charge.taken_back_without_lease()), (7, None));
    }
}
