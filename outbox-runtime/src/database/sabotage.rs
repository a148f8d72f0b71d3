//! Defects of the database room that the fault suite must catch.

use super::cursor::ClaimRequest;
use super::statement::{Run, statements, values};
use crate::queue::QueueId;
use crate::sabotage::{Sabotage, is};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

statements! { EVERY;
    SEIZE = "UPDATE outbox_cursor SET lease_owner = $owner, lease_epoch = $epoch \
        WHERE partition_id = $partition AND consumer = $consumer";
    HIGHEST = "SELECT COALESCE(MAX(id), 0) AS highest FROM outbox_body";
    DROP_LATE = "DELETE FROM outbox_incoming WHERE queue_id = $queue AND id <= $seen";
}

/// Makes the lease look like that of the claim to be acknowledged.
pub(super) async fn seize<C: ConnectionTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<(), DbErr> {
    let Some(ack) = request.ack.as_ref().filter(|_| is(Sabotage::IgnoreLease)) else {
        return Ok(());
    };
    let values = values! {
        owner: request.owner,
        epoch: ack.epoch,
        partition: request.partition_id,
        consumer: request.consumer,
    };
    SEIZE.execute(conn, values).await.map(drop)
}

/// Drops what was committed below the ids that the last pass has seen.
pub(super) async fn forget_late(db: &DatabaseConnection, queue_id: QueueId) -> Result<(), DbErr> {
    static SEEN: Mutex<Option<HashMap<QueueId, i64>>> = Mutex::new(None);
    if !is(Sabotage::SkipLate) {
        return Ok(());
    }
    let highest = HIGHEST
        .first(db, values! {})
        .await?
        .ok_or(DbErr::RecordNotInserted)?;
    let highest = highest.try_get_by("highest")?;
    let seen = {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get_or_insert_default().insert(queue_id, highest)
    };
    let values = values! { queue: queue_id, seen: seen.unwrap_or(0) };
    DROP_LATE.execute(db, values).await.map(drop)
}
