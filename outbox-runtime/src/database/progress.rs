//! How far messages have come: which wait for a sequence number, and where a consumer is.

use super::statement::{Run, Statement, statements, values};
use crate::queue::{PartitionId, Queue, QueueId};
use sea_orm::{ConnectionTrait, DbErr};
use std::collections::BTreeMap;

statements! { EVERY;
    // Both columns in the order, so that every engine walks its primary key.
    FIRST_UNSEQUENCED = "SELECT id FROM outbox_incoming \
        WHERE queue_id = $queue AND id BETWEEN $from AND $to AND slot < 16384 + $partitions \
        ORDER BY queue_id ASC, id ASC LIMIT 1";
    LAST_UNSEQUENCED = "SELECT id FROM outbox_incoming \
        WHERE queue_id = $queue AND id BETWEEN $from AND $to AND slot < 16384 + $partitions \
        ORDER BY queue_id DESC, id DESC LIMIT 1";
    PROCESSED = "SELECT partition_id, processed_seq FROM outbox_cursor \
        WHERE partition_id BETWEEN $first AND $last AND consumer = $consumer";
    SEQUENCES = "SELECT id, sequence FROM outbox_partition WHERE id BETWEEN $first AND $last";
}

/// The first and the last id of committed messages without a sequence number, in partitions that
/// exist. `None` if there are no such messages.
pub(crate) async fn unsequenced<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
) -> Result<Option<(i64, i64)>, DbErr> {
    let last = end_of_incoming(conn, &LAST_UNSEQUENCED, queue, (0, i64::MAX)).await?;
    let Some(last) = last else {
        return Ok(None);
    };
    let first = first_unsequenced(conn, queue, (0, last)).await?;
    Ok(first.map(|first| (first, last)))
}

/// The first of them between these ids that still has no sequence number.
pub(crate) async fn first_unsequenced<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    between: (i64, i64),
) -> Result<Option<i64>, DbErr> {
    end_of_incoming(conn, &FIRST_UNSEQUENCED, queue, between).await
}

async fn end_of_incoming<C: ConnectionTrait>(
    conn: &C,
    end: &Statement,
    queue: &Queue,
    (from, to): (i64, i64),
) -> Result<Option<i64>, DbErr> {
    let values = values! {
        queue: queue.queue_id(),
        from: from,
        to: to,
        partitions: i64::from(queue.partitions().count()),
    };
    let row = end.first(conn, values).await?;
    row.map(|row| row.try_get_by("id")).transpose()
}

/// The last sequence number that a consumer has done, by partition. Empty if it was removed.
pub(crate) async fn places<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    consumer: &str,
) -> Result<BTreeMap<PartitionId, i64>, DbErr> {
    let values = values! {
        first: queue_id,
        last: queue_id.last_partition(),
        consumer: consumer,
    };
    let rows = PROCESSED.query(conn, values).await?;
    rows.iter()
        .map(|row| {
            Ok((
                row.try_get_by("partition_id")?,
                row.try_get_by("processed_seq")?,
            ))
        })
        .collect()
}

/// The last sequence number given in each partition. Only the process that holds the queue's lock
/// changes them.
pub(crate) async fn sequences<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
) -> Result<BTreeMap<PartitionId, i64>, DbErr> {
    let values = values! { first: queue_id, last: queue_id.last_partition() };
    let rows = SEQUENCES.query(conn, values).await?;
    rows.iter()
        .map(|row| Ok((row.try_get_by("id")?, row.try_get_by("sequence")?)))
        .collect()
}
