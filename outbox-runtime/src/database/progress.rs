//! How far messages have come: what waits for its number, and where a consumer is.

use super::sql::query;
use crate::queue::{PartitionId, Queue, QueueId};
use sea_orm::{ConnectionTrait, DbErr};
use std::collections::BTreeMap;

/// The ids between which a queue has committed messages without a number, in partitions
/// that exist; `None` if there are none.
pub(crate) async fn unsequenced<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
) -> Result<Option<(i64, i64)>, DbErr> {
    let last = end_of_incoming(conn, queue, (0, i64::MAX), "DESC").await?;
    let Some(last) = last else {
        return Ok(None);
    };
    let first = first_unsequenced(conn, queue, (0, last)).await?;
    Ok(first.map(|first| (first, last)))
}

/// The first of them between these ids that still has no number.
pub(crate) async fn first_unsequenced<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    between: (i64, i64),
) -> Result<Option<i64>, DbErr> {
    end_of_incoming(conn, queue, between, "ASC").await
}

async fn end_of_incoming<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    (from, to): (i64, i64),
    order: &str,
) -> Result<Option<i64>, DbErr> {
    // Both columns in the order, so that every engine walks its primary key.
    let text = format!(
        "SELECT id FROM outbox_incoming WHERE queue_id = ? AND id BETWEEN ? AND ? \
            AND slot < ? \
         ORDER BY queue_id {order}, id {order} LIMIT 1"
    );
    let beyond = 16_384 + i64::from(queue.partitions().count());
    let values = [queue.id(), from, to, beyond];
    let rows = query(conn, &text, values.map(Into::into)).await?;
    rows.first().map(|row| row.try_get_by_index(0)).transpose()
}

/// Where a consumer is in each partition of a queue. None of a consumer that was removed.
pub(crate) async fn places<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    consumer: &str,
) -> Result<BTreeMap<PartitionId, i64>, DbErr> {
    query(
        conn,
        "SELECT partition_id, processed_seq FROM outbox_cursor \
         WHERE partition_id BETWEEN ? AND ? AND consumer = ?",
        [
            queue_id.into(),
            queue_id.last_partition().into(),
            consumer.into(),
        ],
    )
    .await?
    .iter()
    .map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)))
    .collect()
}
