//! Writing messages: what does not differ.

use crate::database::enqueue::NewRow;
use crate::database::statement::{Run, statements, values};
use crate::queue::{QueueId, Slot};
use sea_orm::{ConnectionTrait, DbErr, Value};

statements! { STEPWISE;
    INSERT_ONE_INCOMING =
        "INSERT INTO outbox_incoming (queue_id, id, slot) VALUES ($queue, $id, $slot)";
}

/// Writes the incoming row of one body.
pub(in crate::database) async fn insert_incoming<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    id: i64,
    slot: Slot,
) -> Result<(), DbErr> {
    let values = values! { queue: queue_id, id: id, slot: slot.stored() };
    INSERT_ONE_INCOMING.execute(conn, values).await.map(drop)
}

/// The values of each body, in the order of the columns.
pub(in crate::database) fn body_values(
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> impl Iterator<Item = Value> {
    rows.into_iter().flat_map(move |row| {
        [
            queue_id.into(),
            row.slot.stored().into(),
            row.nonce.into(),
            row.event_type.into_owned().into(),
            row.key.into(),
            row.payload.into(),
            row.headers.into(),
            row.target.into(),
        ]
    })
}

/// `[[id,slot],...]`: numbers only, so this is JSON.
pub(in crate::database) fn json_pairs(ids: &[i64], slots: &[Slot]) -> String {
    let pairs = ids.iter().zip(slots);
    super::json(pairs.map(|(id, slot)| format!("[{id},{}]", slot.stored())))
}
