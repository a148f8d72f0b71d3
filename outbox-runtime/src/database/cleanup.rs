//! Deleting what every consumer has passed.

use super::connection_cache::Kept;
use super::registration::begin;
use super::sql::{execute, list, query};
use crate::database::dialect::{self, ByKeys, Dialect, MYSQL_BY_KEYS, SQLITE_BY_KEYS};
use crate::queue::PartitionId;
use sea_orm::{DatabaseConnection, DbErr};

/// What a pass deleted in a partition.
#[derive(Debug)]
pub(crate) struct Vacuumed {
    pub(crate) partition_id: PartitionId,
    /// The last number deleted.
    pub(crate) upto: i64,
    pub(crate) rows: i64,
}

/// Deletes up to `limit` rows of each partition, beyond the number given with it.
pub(crate) async fn vacuum(
    kept: &Kept,
    from: &[(PartitionId, i64)],
    limit: u32,
    retention_micros: i64,
    asynchronous: bool,
) -> Result<Vec<Vacuumed>, DbErr> {
    let db = kept.pool();
    match Dialect::of(db)? {
        Dialect::Postgres => {
            dialect::vacuum_at_once(kept, from, limit, retention_micros, asynchronous).await
        }
        Dialect::MySql => vacuum_in_steps(db, from, limit, retention_micros, &MYSQL_BY_KEYS).await,
        Dialect::Sqlite => {
            vacuum_in_steps(db, from, limit, retention_micros, &SQLITE_BY_KEYS).await
        }
    }
}

/// One query finds the partitions with something to delete; each is a short
/// transaction of its own that deletes by lists of primary keys.
async fn vacuum_in_steps(
    db: &DatabaseConnection,
    from: &[(PartitionId, i64)],
    limit: u32,
    retention_micros: i64,
    by_keys: &ByKeys,
) -> Result<Vec<Vacuumed>, DbErr> {
    let passed = query(
        db,
        &format!(
            "SELECT partition_id, MIN(processed_seq) FROM outbox_cursor \
             WHERE partition_id IN ({}) GROUP BY partition_id",
            list(from.iter().map(|(partition_id, _)| *partition_id))
        ),
        [],
    )
    .await?;
    forget_passed_attempts(db).await?;
    let mut vacuumed = Vec::new();
    for row in &passed {
        let (partition_id, upto): (PartitionId, i64) =
            (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        let after = from.iter().find(|(id, _)| *id == partition_id);
        let Some(&(_, after)) = after.filter(|(_, after)| *after < upto) else {
            continue;
        };
        let rows = query(
            db,
            "SELECT o.seq, o.id, {now_us} - {us(b.enqueued_at)} \
             FROM outbox_outgoing o LEFT JOIN outbox_body b ON b.id = o.id \
             WHERE o.partition_id = ? AND o.seq > ? AND o.seq <= ? ORDER BY o.seq LIMIT ?",
            [partition_id.into(), after.into(), upto.into(), limit.into()],
        )
        .await?;
        let mut seqs: Vec<i64> = Vec::with_capacity(rows.len());
        let mut ids: Vec<i64> = Vec::with_capacity(rows.len());
        for row in &rows {
            let age: Option<i64> = row.try_get_by_index(2)?;
            if age.is_some_and(|age| age < retention_micros) {
                break;
            }
            seqs.push(row.try_get_by_index(0)?);
            ids.push(row.try_get_by_index(1)?);
        }
        let Some(&last) = seqs.last() else {
            continue;
        };
        let count = i64::try_from(seqs.len()).unwrap_or(i64::MAX);
        let tx = begin(db).await?;
        let outgoing = [format!("[{}]", list(seqs)).into(), partition_id.into()];
        execute(&tx, by_keys.delete_outgoing, outgoing).await?;
        let bodies = [format!("[{}]", list(ids)).into()];
        execute(&tx, by_keys.delete_bodies, bodies).await?;
        tx.commit().await?;
        vacuumed.push(Vacuumed {
            partition_id,
            upto: last,
            rows: count,
        });
    }
    Ok(vacuumed)
}

/// Deletes records of attempts that are behind their cursor. It moves in one statement and
/// its records go in the next: who dies in between leaves them.
async fn forget_passed_attempts(db: &DatabaseConnection) -> Result<(), DbErr> {
    let passed = query(
        db,
        "SELECT a.partition_id, a.consumer, a.seq FROM outbox_attempt a \
         JOIN outbox_cursor c ON c.partition_id = a.partition_id AND c.consumer = a.consumer \
         WHERE a.seq <= c.processed_seq LIMIT 100",
        [],
    )
    .await?;
    for row in &passed {
        let key = [
            row.try_get_by_index::<i64>(0)?.into(),
            row.try_get_by_index::<String>(1)?.into(),
            row.try_get_by_index::<i64>(2)?.into(),
        ];
        let delete = "DELETE FROM outbox_attempt \
            WHERE partition_id = ? AND consumer = ? AND seq = ?";
        execute(db, delete, key).await?;
    }
    Ok(())
}
