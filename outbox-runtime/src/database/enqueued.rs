//! What was enqueued and is still there, for tests.

use super::sql::{list, query};
use crate::queue::Queue;
use sea_orm::{ConnectionTrait, DbErr};

/// The payloads of a queue's messages of these event types, oldest first.
pub(crate) async fn payloads<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    event_types: &[&str],
) -> Result<Vec<Vec<u8>>, DbErr> {
    let id = queue.queue_id();
    let partitions = list((0..64).map(|number| id.partition(number)));
    let marks = vec!["?"; event_types.len()].join(",");
    let rows = query(
        conn,
        &format!(
            "SELECT b.payload FROM outbox_body b WHERE b.event_type IN ({marks}) \
                AND (b.id IN (SELECT i.id FROM outbox_incoming i WHERE i.queue_id = {id}) \
                    OR b.id IN (SELECT o.id FROM outbox_outgoing o \
                        WHERE o.partition_id IN ({partitions}))) \
             ORDER BY b.id"
        ),
        event_types.iter().map(|name| (*name).into()),
    )
    .await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}
