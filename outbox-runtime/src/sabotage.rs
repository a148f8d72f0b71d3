//! Defects that the fault suite must catch: a checker that has never seen a broken
//! engine proves nothing.
//!
//! Only with the feature `sabotage`, and even then nothing happens before
//! [`commit`] is called. Each defect is one function, called at one place.

use crate::database::cursor::{self, ClaimRequest};
use crate::database::sql::{execute, query};
use crate::delivery::claim::Claim;
use crate::delivery::consumer::Consumer;
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// A way to break the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Sabotage {
    /// Leased messages are acknowledged before their handlers run.
    AckFirst = 1,
    /// An acknowledgement takes effect whoever has the lease.
    IgnoreLease = 2,
    /// The sequencer looks only above the highest id it has seen.
    SkipLate = 3,
}

static COMMITTED: AtomicU8 = AtomicU8::new(0);

/// Breaks the engine of this process, for good.
pub fn commit(sabotage: Sabotage) {
    COMMITTED.store(sabotage as u8, Ordering::Release);
}

fn is(sabotage: Sabotage) -> bool {
    COMMITTED.load(Ordering::Acquire) == sabotage as u8
}

pub(crate) async fn ack_first(consumer: &Consumer, claim: &Claim) -> Result<(), DbErr> {
    if !is(Sabotage::AckFirst) {
        return Ok(());
    }
    let (db, id) = (&consumer.db, claim.partition_id);
    let (name, owner) = (&consumer.name, &consumer.owner);
    let last = claim.processed_after(claim.messages.len());
    let acked = cursor::advance(db, id, name, owner, claim.epoch, last);
    acked.await.map(drop)
}

/// Makes the lease look like that of the claim to be acknowledged.
pub(crate) async fn seize<C: ConnectionTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<(), DbErr> {
    let Some(ack) = request.ack.as_ref().filter(|_| is(Sabotage::IgnoreLease)) else {
        return Ok(());
    };
    let text = "UPDATE outbox_cursor SET lease_owner = ?, lease_epoch = ? \
                WHERE partition_id = ? AND consumer = ?";
    let values = [
        request.owner.into(),
        ack.epoch.into(),
        request.partition_id.into(),
        request.consumer.into(),
    ];
    execute(conn, text, values).await.map(drop)
}

/// Drops what was committed below the ids that the last pass has seen.
pub(crate) async fn forget_late(db: &DatabaseConnection, queue_id: QueueId) -> Result<(), DbErr> {
    static MARKS: Mutex<Option<HashMap<QueueId, i64>>> = Mutex::new(None);
    if !is(Sabotage::SkipLate) {
        return Ok(());
    }
    let highest = "SELECT COALESCE(MAX(id), 0) FROM outbox_body";
    let highest = query(db, highest, []).await?[0].try_get_by_index(0)?;
    let mark = {
        let mut marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
        marks.get_or_insert_default().insert(queue_id, highest)
    };
    let late = "DELETE FROM outbox_incoming WHERE queue_id = ? AND id <= ?";
    let values = [queue_id.into(), mark.unwrap_or(0).into()];
    execute(db, late, values).await.map(drop)
}
