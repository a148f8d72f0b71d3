//! What there is to see: backlogs, cursors, leases, failures, rows nobody owns.

use super::attempts::Attempts;
use super::sql::query;
use crate::queue::{PartitionId, QueueId};
use sea_orm::{DatabaseConnection, DbErr};

/// A queue.
pub(crate) struct QueueRow {
    pub(crate) id: QueueId,
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) incoming: i64,
}

/// A consumer's place in a partition.
pub(crate) struct CursorRow {
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: String,
    pub(crate) mode: String,
    pub(crate) silent_us: i64,
    pub(crate) sequence: i64,
    pub(crate) processed: i64,
    pub(crate) lease_owner: Option<String>,
    pub(crate) lease_left_us: Option<i64>,
}

/// A message that failed and is not settled.
pub(crate) struct FailureRow {
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: String,
    pub(crate) id: i64,
    pub(crate) event_type: String,
    pub(crate) key: Vec<u8>,
    pub(crate) attempts: Attempts,
    pub(crate) due_us: i64,
    pub(crate) reason: Option<String>,
    pub(crate) blocking: bool,
}

/// Rows in incoming that no sequencer takes.
pub(crate) struct UnownedRow {
    pub(crate) queue_id: QueueId,
    /// One of those with a partition that was chosen by hand.
    pub(crate) slot: Option<i16>,
    pub(crate) rows: i64,
}

/// All queues.
pub(crate) async fn queues(db: &DatabaseConnection) -> Result<Vec<QueueRow>, DbErr> {
    query(
        db,
        "SELECT q.id, q.name, q.paused, \
            (SELECT COUNT(*) FROM outbox_incoming i WHERE i.queue_id = q.id) \
         FROM outbox_queue q ORDER BY q.name",
        [],
    )
    .await?
    .iter()
    .map(|row| {
        Ok(QueueRow {
            id: row.try_get_by_index(0)?,
            name: row.try_get_by_index(1)?,
            paused: row.try_get_by_index(2)?,
            incoming: row.try_get_by_index(3)?,
        })
    })
    .collect()
}

/// All cursors.
pub(crate) async fn cursors(db: &DatabaseConnection) -> Result<Vec<CursorRow>, DbErr> {
    query(
        db,
        "SELECT c.partition_id, c.consumer, k.mode, {now_us} - {us(k.seen_at)}, \
            p.sequence, c.processed_seq, c.lease_owner, {us(c.lease_until)} - {now_us} \
         FROM outbox_cursor c \
         JOIN outbox_partition p ON p.id = c.partition_id \
         JOIN outbox_consumer k ON k.queue_id = p.queue_id AND k.name = c.consumer \
         ORDER BY c.consumer, c.partition_id",
        [],
    )
    .await?
    .iter()
    .map(|row| {
        Ok(CursorRow {
            partition_id: row.try_get_by_index(0)?,
            consumer: row.try_get_by_index(1)?,
            mode: row.try_get_by_index(2)?,
            silent_us: row.try_get_by_index(3)?,
            sequence: row.try_get_by_index(4)?,
            processed: row.try_get_by_index(5)?,
            lease_owner: row.try_get_by_index(6)?,
            lease_left_us: row.try_get_by_index(7)?,
        })
    })
    .collect()
}

/// The first `limit` messages that failed, soonest due first.
pub(crate) async fn failures(
    db: &DatabaseConnection,
    limit: u32,
) -> Result<Vec<FailureRow>, DbErr> {
    query(
        db,
        "SELECT a.partition_id, a.consumer, b.id, b.event_type, b.{key}, \
            a.failures, a.deaths, \
            {us(a.not_before)} - {now_us}, a.last_error, \
            CASE WHEN a.seq = c.processed_seq + 1 THEN 1 ELSE 0 END \
         FROM outbox_attempt a \
         JOIN outbox_cursor c ON c.partition_id = a.partition_id AND c.consumer = a.consumer \
         JOIN outbox_outgoing o ON o.partition_id = a.partition_id AND o.seq = a.seq \
         JOIN outbox_body b ON b.id = o.id \
         WHERE NOT a.done ORDER BY a.not_before LIMIT ?",
        [limit.into()],
    )
    .await?
    .iter()
    .map(|row| {
        Ok(FailureRow {
            partition_id: row.try_get_by_index(0)?,
            consumer: row.try_get_by_index(1)?,
            id: row.try_get_by_index(2)?,
            event_type: row.try_get_by_index(3)?,
            key: row.try_get_by_index(4)?,
            attempts: Attempts {
                failures: row.try_get_by_index(5)?,
                deaths: row.try_get_by_index(6)?,
            },
            due_us: row.try_get_by_index(7)?,
            reason: row.try_get_by_index(8)?,
            blocking: row.try_get_by_index::<i32>(9)? == 1,
        })
    })
    .collect()
}

/// Rows of queues that nobody registered, or of a partition that their queue does not have.
pub(crate) async fn unowned(db: &DatabaseConnection) -> Result<Vec<UnownedRow>, DbErr> {
    query(
        db,
        "SELECT i.queue_id, i.chosen, COUNT(*) FROM ( \
            SELECT n.queue_id, CASE WHEN n.slot >= 16384 THEN n.slot END AS chosen \
            FROM outbox_incoming n LEFT JOIN outbox_queue q ON q.id = n.queue_id \
            WHERE q.id IS NULL OR n.slot >= 16384 + q.partitions \
         ) i GROUP BY i.queue_id, i.chosen",
        [],
    )
    .await?
    .iter()
    .map(|row| {
        Ok(UnownedRow {
            queue_id: row.try_get_by_index(0)?,
            slot: row.try_get_by_index(1)?,
            rows: row.try_get_by_index(2)?,
        })
    })
    .collect()
}
