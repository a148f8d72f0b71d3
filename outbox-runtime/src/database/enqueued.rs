//! What was enqueued and is still there, for tests.

use super::statement::{Run, statements, values};
use crate::queue::Queue;
use sea_orm::{ConnectionTrait, DbErr};

statements! { EVERY;
    BODIES_OF_QUEUE = "SELECT b.event_type, b.payload FROM outbox_body b \
        WHERE b.queue_id = $queue \
            AND (b.id IN (SELECT i.id FROM outbox_incoming i WHERE i.queue_id = $queue) \
                OR b.id IN (SELECT o.id FROM outbox_outgoing o \
                    WHERE o.partition_id BETWEEN $queue AND $last)) \
        ORDER BY b.id";
}

/// The payloads of a queue's messages of these event types, oldest first.
pub(crate) async fn payloads<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    event_types: &[&str],
) -> Result<Vec<Vec<u8>>, DbErr> {
    let id = queue.queue_id();
    let values = values! { queue: id, last: id.last_partition() };
    let mut payloads = Vec::new();
    for row in BODIES_OF_QUEUE.query(conn, values).await? {
        let event_type: String = row.try_get_by("event_type")?;
        if event_types.contains(&&*event_type) {
            payloads.push(row.try_get_by("payload")?);
        }
    }
    Ok(payloads)
}
