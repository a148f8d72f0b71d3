//! What an operator sees: backlogs, cursors, leases, failures, and rows that no process takes.

use super::attempts::Attempts;
use super::statement::{Run, statements, values};
use crate::queue::{PartitionId, QueueId};
use sea_orm::{DatabaseConnection, DbErr};

/// A queue.
pub(crate) struct QueueRow {
    pub(crate) id: QueueId,
    pub(crate) name: String,
    pub(crate) paused: bool,
    pub(crate) incoming: i64,
}

/// The cursor of a consumer in a partition.
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

statements! { EVERY;
    QUEUES = "SELECT q.id, q.name, q.paused, \
            (SELECT COUNT(*) FROM outbox_incoming i WHERE i.queue_id = q.id) AS incoming \
        FROM outbox_queue q ORDER BY q.name";
    CURSORS = file "shared/cursors.sql";
    FAILURES = file "shared/failures.sql";
    UNOWNED = file "shared/unowned.sql";
}

/// All queues.
pub(crate) async fn queues(db: &DatabaseConnection) -> Result<Vec<QueueRow>, DbErr> {
    let rows = QUEUES.query(db, values! {}).await?;
    rows.iter()
        .map(|row| {
            Ok(QueueRow {
                id: row.try_get_by("id")?,
                name: row.try_get_by("name")?,
                paused: row.try_get_by("paused")?,
                incoming: row.try_get_by("incoming")?,
            })
        })
        .collect()
}

/// All cursors.
pub(crate) async fn cursors(db: &DatabaseConnection) -> Result<Vec<CursorRow>, DbErr> {
    let rows = CURSORS.query(db, values! {}).await?;
    rows.iter()
        .map(|row| {
            Ok(CursorRow {
                partition_id: row.try_get_by("partition_id")?,
                consumer: row.try_get_by("consumer")?,
                mode: row.try_get_by("mode")?,
                silent_us: row.try_get_by("silent_us")?,
                sequence: row.try_get_by("sequence")?,
                processed: row.try_get_by("processed_seq")?,
                lease_owner: row.try_get_by("lease_owner")?,
                lease_left_us: row.try_get_by("lease_left_us")?,
            })
        })
        .collect()
}

/// The first `limit` messages that failed, soonest due first.
pub(crate) async fn failures(
    db: &DatabaseConnection,
    limit: u32,
) -> Result<Vec<FailureRow>, DbErr> {
    let rows = FAILURES.query(db, values! { limit: limit }).await?;
    rows.iter()
        .map(|row| {
            Ok(FailureRow {
                partition_id: row.try_get_by("partition_id")?,
                consumer: row.try_get_by("consumer")?,
                id: row.try_get_by("id")?,
                event_type: row.try_get_by("event_type")?,
                key: row.try_get_by("key")?,
                attempts: Attempts {
                    failures: row.try_get_by("failures")?,
                    deaths: row.try_get_by("deaths")?,
                },
                due_us: row.try_get_by("due_us")?,
                reason: row.try_get_by("last_error")?,
                blocking: row.try_get_by::<i32, _>("is_next")? == 1,
            })
        })
        .collect()
}

/// Rows of queues that nobody registered, or of a partition that their queue does not have.
pub(crate) async fn unowned(db: &DatabaseConnection) -> Result<Vec<UnownedRow>, DbErr> {
    let rows = UNOWNED.query(db, values! {}).await?;
    rows.iter()
        .map(|row| {
            Ok(UnownedRow {
                queue_id: row.try_get_by("queue_id")?,
                slot: row.try_get_by("chosen")?,
                rows: row.try_get_by("row_count")?,
            })
        })
        .collect()
}
