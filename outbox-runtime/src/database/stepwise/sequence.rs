//! Numbering committed rows in steps: read, number in memory, write by primary keys. On MySQL a range
//! scan that locks would wait for inserts that are not committed yet.

use super::{ByKeys, json};
use crate::database::progress::sequences;
use crate::database::sequence::{SequenceRequest, Sequenced};
use crate::database::statement::{Run, statements, values};
use crate::database::transaction::begin;
use crate::queue::{PartitionId, Slot};
use sea_orm::{DatabaseConnection, DatabaseTransaction, DbErr};
use std::collections::BTreeMap;

statements! { STEPWISE;
    IS_THERE_ANY = "SELECT 1 FROM outbox_incoming WHERE queue_id = $queue LIMIT 1";
    LOCK_QUEUE = "SELECT partitions FROM outbox_queue WHERE id = $queue {skip_locked}";
    /// Rows of a partition beyond the count stay.
    NEXT_ROWS = "SELECT id, slot FROM outbox_incoming \
        WHERE queue_id = $queue AND slot < 16384 + $partitions ORDER BY id LIMIT $limit";
}

pub(in crate::database) async fn sequence(
    db: &DatabaseConnection,
    request: &SequenceRequest,
    by_keys: &ByKeys,
) -> Result<Sequenced, DbErr> {
    let queue = request.queue_id;
    if IS_THERE_ANY
        .first(db, values! { queue: queue })
        .await?
        .is_none()
    {
        return Ok(Sequenced::default());
    }
    let tx = begin(db).await?;
    let Some(locked) = LOCK_QUEUE.first(&tx, values! { queue: queue }).await? else {
        return Ok(Sequenced::by_another());
    };
    let partitions = locked.try_get_by::<i16, _>("partitions")?.unsigned_abs();
    let mut pass = Pass {
        last: sequences(&tx, queue).await?,
        ..Pass::default()
    };
    let rows = values! {
        queue: queue,
        partitions: i64::from(partitions),
        limit: request.limit,
    };
    for row in NEXT_ROWS.query(&tx, rows).await? {
        let slot = Slot::from_stored(row.try_get_by("slot")?);
        let partition = queue.partition(slot.partition_of(partitions.into()));
        pass.number(row.try_get_by("id")?, partition)?;
    }
    if pass.done.taken == 0 {
        return Ok(Sequenced::default());
    }
    pass.write(&tx, request, by_keys).await?;
    tx.commit().await?;
    Ok(pass.done)
}

/// What a pass has numbered and not written yet.
#[derive(Default)]
struct Pass {
    /// The last sequence number of each partition.
    last: BTreeMap<PartitionId, i64>,
    taken: Vec<i64>,
    outgoing: Vec<String>,
    done: Sequenced,
}

impl Pass {
    fn number(&mut self, id: i64, partition: PartitionId) -> Result<(), DbErr> {
        let seq = self.last.get_mut(&partition).ok_or_else(|| {
            DbErr::RecordNotFound(format!("outbox_partition has no row {partition}"))
        })?;
        *seq += 1;
        self.outgoing.push(format!("[{partition},{seq},{id}]"));
        self.taken.push(id);
        self.done.add(partition, 1);
        Ok(())
    }

    async fn write(
        &self,
        tx: &DatabaseTransaction,
        request: &SequenceRequest,
        by_keys: &ByKeys,
    ) -> Result<(), DbErr> {
        let rows = values! { rows: json(&self.outgoing) };
        by_keys.insert_outgoing.execute(tx, rows).await?;
        let moved = self.last.iter();
        let moved = moved.filter(|(id, _)| self.done.moved.contains(id.number()));
        let rows = values! { rows: json(moved.map(|(id, seq)| format!("[{id},{seq}]"))) };
        by_keys.advance_partitions.execute(tx, rows).await?;
        let taken = values! { queue: request.queue_id, ids: json(&self.taken) };
        let deleted = by_keys.delete_incoming.execute(tx, taken).await?;
        if deleted != self.done.taken as u64 {
            // Nothing is taken that is not written.
            return Err(DbErr::RecordNotUpdated);
        }
        Ok(())
    }
}
