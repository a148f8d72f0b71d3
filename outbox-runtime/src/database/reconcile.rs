//! One question for everything a lost wake-up could have left behind.

use super::registration::{Present, seen};
use super::sql::{list, query};
use crate::database::dialect::Dialect;
use crate::queue::{PartitionId, QueueId};
use sea_orm::{DatabaseConnection, DbErr};

/// Work that waits, and whether its queue is paused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A queue is paused.
    Paused { queue_id: QueueId },
    /// A queue has rows without a number.
    Unsequenced { queue_id: QueueId },
    /// It has some where the sequencer no longer looks.
    BelowMark { queue_id: QueueId },
    /// A consumer can go on in a partition.
    Claimable {
        partition_id: PartitionId,
        consumer: String,
    },
}

/// Finds everything that waits in the given queues, in one query: rows nobody
/// sequenced (of partitions that exist), cursors behind their partition with no valid
/// lease and something to do: a message that failed holds up no more than its key where
/// many keys run at a time. Whoever has several keys at a time keeps the lease, and is
/// told of what others numbered meanwhile. A thorough look also finds rows that are not
/// expected to exist, and may walk over many that are deleted. Says on the way which
/// consumers a process is there for, if any are given.
pub(crate) async fn waiting(
    db: &DatabaseConnection,
    queue_ids: &[QueueId],
    owner: &str,
    thorough: bool,
    present: &[Present],
) -> Result<Vec<Waiting>, DbErr> {
    let with_seen = Dialect::of(db)?.words().with_seen;
    let (with_seen, mut values) = if present.is_empty() || with_seen.is_empty() {
        for present in present {
            seen(db, present).await?;
        }
        ("", Vec::new())
    } else {
        let ids: Vec<i64> = present.iter().map(|p| p.queue_id.get()).collect();
        let names: Vec<String> = present.iter().map(|p| p.name.clone()).collect();
        let types: Vec<String> = present.iter().map(|p| p.types().to_owned()).collect();
        (with_seen, vec![ids.into(), names.into(), types.into()])
    };
    values.push(owner.into());
    let queues = list(queue_ids.iter().copied());
    let below = match thorough {
        true => format!(
            "SELECT 3, q.id, '' FROM outbox_queue q WHERE q.id IN ({queues}) AND {{below_mark}} \
             UNION ALL "
        ),
        false => String::new(),
    };
    let rows = query(
        db,
        &format!(
            "{with_seen}{below}SELECT 0, q.id, '' FROM outbox_queue q WHERE q.id IN ({queues}) AND q.paused \
             UNION ALL \
             SELECT 1, q.id, '' FROM outbox_queue q WHERE q.id IN ({queues}) AND {{unsequenced}} \
             UNION ALL \
             SELECT 2, c.partition_id, c.consumer FROM outbox_partition p \
             JOIN outbox_cursor c ON c.partition_id = p.id AND c.processed_seq < p.sequence \
             LEFT JOIN outbox_attempt a ON a.partition_id = c.partition_id \
                AND a.consumer = c.consumer AND a.seq = c.processed_seq + 1 \
             WHERE p.queue_id IN ({queues}) \
                AND (c.lease_until IS NULL OR c.lease_until <= {{now}} \
                    OR (c.lease_owner = ? AND c.claimed_seq < p.sequence)) \
                AND (a.not_before IS NULL OR a.not_before <= {{now}} \
                    OR p.sequence > c.processed_seq + 1)"
        ),
        values,
    )
    .await?;
    rows.iter()
        .map(|row| {
            let queue = || row.try_get_by_index(1);
            Ok(match row.try_get_by_index::<i32>(0)? {
                0 => Waiting::Paused { queue_id: queue()? },
                1 => Waiting::Unsequenced { queue_id: queue()? },
                3 => Waiting::BelowMark { queue_id: queue()? },
                _ => Waiting::Claimable {
                    partition_id: row.try_get_by_index(1)?,
                    consumer: row.try_get_by_index(2)?,
                },
            })
        })
        .collect()
}
