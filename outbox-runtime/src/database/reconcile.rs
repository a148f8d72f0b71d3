//! One question for everything that a lost wake-up could have left behind.

use super::contract;
use super::registration::Present;
use crate::queue::{PartitionId, QueueId};
use sea_orm::{DatabaseConnection, DbErr, QueryResult};

/// Work that waits, and whether its queue is paused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A queue is paused.
    Paused { queue_id: QueueId },
    /// A queue has messages without a sequence number.
    Unsequenced { queue_id: QueueId },
    /// It has some where the sequencer no longer looks.
    BelowLowWatermark { queue_id: QueueId },
    /// A consumer can go on in a partition.
    Claimable {
        partition_id: PartitionId,
        consumer: String,
    },
}

/// Finds everything that waits in the given queues, in one query. A thorough poll also finds rows that
/// are not expected to exist, and may walk over many that are deleted. On the way it writes the
/// heartbeats that are given.
pub(crate) async fn waiting(
    db: &DatabaseConnection,
    queue_ids: &[QueueId],
    owner: &str,
    thorough: bool,
    present: &[Present],
) -> Result<Vec<Waiting>, DbErr> {
    let rows = contract::waiting(db, queue_ids, owner, thorough, present).await?;
    rows.iter().map(of_row).collect()
}

fn of_row(row: &QueryResult) -> Result<Waiting, DbErr> {
    let waits: String = row.try_get_by("waits")?;
    let queue = || row.try_get_by("id");
    Ok(match waits.as_str() {
        "paused" => Waiting::Paused { queue_id: queue()? },
        "unsequenced" => Waiting::Unsequenced { queue_id: queue()? },
        "below" => Waiting::BelowLowWatermark { queue_id: queue()? },
        _ => Waiting::Claimable {
            partition_id: row.try_get_by("id")?,
            consumer: row.try_get_by("consumer")?,
        },
    })
}

/// In front of the query where it is thorough.
pub(super) const BELOW: &str = "SELECT 'below' AS waits, q.id, '' AS consumer \
    FROM outbox_queue q WHERE q.id IN ({numbers}) AND {below_low_watermark} UNION ALL";
