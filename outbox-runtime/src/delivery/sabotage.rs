//! Defects of deliveries that the fault suite must catch.

use super::claim::Claim;
use super::consumer::Consumer;
use crate::database::cursor;
use crate::sabotage::{Sabotage, is};
use sea_orm::DbErr;

/// Acknowledges messages before their handlers run.
pub(super) async fn ack_first(consumer: &Consumer, claim: &Claim) -> Result<(), DbErr> {
    if !is(Sabotage::AckFirst) {
        return Ok(());
    }
    let (db, id) = (&consumer.db, claim.partition_id);
    let (name, owner) = (&consumer.name, &consumer.owner);
    let last = claim.processed_after(claim.messages.len());
    let acked = cursor::advance(db, id, name, owner, claim.epoch, last);
    acked.await.map(drop)
}
