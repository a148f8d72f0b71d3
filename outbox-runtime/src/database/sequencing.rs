//! From incoming to outgoing: committed rows get their numbers.
//!
//! Invariants: one sequencer of a queue at a time, by the queue's row lock, taken
//! with SKIP LOCKED and never waited for; rows are taken in the order of their ids;
//! numbers have no gaps; a row of a partition beyond the count stays. A pass
//! that would take more rows than it writes fails as a whole.

use super::connection_cache::Kept;
use super::registration::begin;
use super::sql::{execute, list, query};
use crate::database::dialect::{self, ByKeys, Dialect, MYSQL_BY_KEYS, SQLITE_BY_KEYS};
use crate::queue::{PartitionId, PartitionSet, QueueId, Slot};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use std::collections::BTreeMap;

/// What a pass did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequenced {
    /// How many rows got a number.
    pub(crate) taken: usize,
    /// The partitions that got rows.
    pub(crate) moved: PartitionSet,
    /// Another process holds the queue: nothing is known.
    pub(crate) locked: bool,
}

impl Sequenced {
    /// Another process holds the queue.
    pub(crate) fn by_another() -> Self {
        Self {
            locked: true,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, partition_id: PartitionId, rows: usize) {
        self.taken += rows;
        self.moved.insert(partition_id.number());
    }
}

/// Where PostgreSQL has a queue's partitions, as of the last pass that went well.
#[derive(Default)]
pub(crate) struct Places {
    pub(crate) known: BTreeMap<PartitionId, String>,
}

/// Numbers up to `limit` committed rows of a queue, all its partitions at once. A
/// thorough pass looks at all rows, also where none should be.
pub(crate) async fn sequence(
    kept: &Kept,
    queue_id: QueueId,
    limit: u32,
    asynchronous: bool,
    thorough: bool,
    places: &mut Places,
) -> Result<Sequenced, DbErr> {
    let db = kept.pool();
    #[cfg(feature = "sabotage")]
    crate::sabotage::forget_late(db, queue_id).await?;
    match Dialect::of(db)? {
        Dialect::Postgres => {
            dialect::sequence_at_once(kept, queue_id, limit, asynchronous, thorough, places).await
        }
        Dialect::MySql => sequence_in_steps(db, queue_id, limit, &MYSQL_BY_KEYS).await,
        Dialect::Sqlite => sequence_in_steps(db, queue_id, limit, &SQLITE_BY_KEYS).await,
    }
}

/// Reads, numbers in memory, writes by lists of primary keys: on MySQL a range
/// scan that locks would wait for inserts that are not committed yet.
async fn sequence_in_steps(
    db: &DatabaseConnection,
    queue_id: QueueId,
    limit: u32,
    by_keys: &ByKeys,
) -> Result<Sequenced, DbErr> {
    let any = "SELECT 1 FROM outbox_incoming WHERE queue_id = ? LIMIT 1";
    if query(db, any, [queue_id.into()]).await?.is_empty() {
        return Ok(Sequenced::default());
    }
    let tx = begin(db).await?;
    let lock = query(
        &tx,
        "SELECT partitions FROM outbox_queue WHERE id = ? {skip_locked}",
        [queue_id.into()],
    )
    .await?;
    let Some(queue) = lock.first() else {
        return Ok(Sequenced::by_another());
    };
    let count = u32::from(queue.try_get_by_index::<i16>(0)?.unsigned_abs());
    let mut last = sequences(&tx, queue_id).await?;
    let rows = query(
        &tx,
        "SELECT id, slot FROM outbox_incoming \
         WHERE queue_id = ? AND slot < 16384 + ? ORDER BY id LIMIT ?",
        [queue_id.into(), count.into(), limit.into()],
    )
    .await?;
    if rows.is_empty() {
        return Ok(Sequenced::default());
    }
    let mut done = Sequenced::default();
    let mut ids = Vec::with_capacity(rows.len());
    let mut outgoing = Vec::with_capacity(rows.len());
    for row in &rows {
        let id: i64 = row.try_get_by_index(0)?;
        let slot = Slot::from_stored(row.try_get_by_index(1)?);
        let partition_id = queue_id.partition(slot.partition_of(count));
        let seq = last.get_mut(&partition_id).ok_or_else(|| {
            DbErr::RecordNotFound(format!("outbox_partition has no row {partition_id}"))
        })?;
        *seq += 1;
        outgoing.push(format!("[{partition_id},{seq},{id}]"));
        ids.push(id);
        done.add(partition_id, 1);
    }
    let outgoing = format!("[{}]", outgoing.join(","));
    execute(&tx, by_keys.insert_outgoing, [outgoing.into()]).await?;
    let moved = last
        .iter()
        .filter(|(id, _)| done.moved.contains(id.number()));
    let moved: Vec<String> = moved.map(|(id, seq)| format!("[{id},{seq}]")).collect();
    let moved = format!("[{}]", moved.join(","));
    execute(&tx, by_keys.advance_partitions, [moved.into()]).await?;
    let taken = [format!("[{}]", list(ids)).into(), queue_id.into()];
    let taken = execute(&tx, by_keys.delete_incoming, taken).await?;
    if taken != done.taken as u64 {
        return Err(DbErr::RecordNotUpdated);
    }
    tx.commit().await?;
    Ok(done)
}

/// The last number given in each partition; only the queue's lock holder changes them.
pub(crate) async fn sequences<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
) -> Result<BTreeMap<PartitionId, i64>, DbErr> {
    query(
        conn,
        "SELECT id, sequence FROM outbox_partition WHERE id BETWEEN ? AND ?",
        [queue_id.into(), queue_id.last_partition().into()],
    )
    .await?
    .iter()
    .map(|row| Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?)))
    .collect()
}
