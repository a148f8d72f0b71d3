//! Deleting what every consumer has passed. One query finds the partitions with something to delete;
//! each is a short transaction of its own that deletes by lists of primary keys.

use super::{ByKeys, json};
use crate::database::statement::{Run, statements, values};
use crate::database::transaction::begin;
use crate::database::vacuum::{VacuumRequest, Vacuumed};
use crate::queue::PartitionId;
use sea_orm::{DatabaseConnection, DbErr};

statements! { STEPWISE;
    PASSED_BY_ALL = "SELECT partition_id, MIN(processed_seq) AS upto FROM outbox_cursor \
        WHERE partition_id IN ({numbers}) GROUP BY partition_id";
    OLDEST_ROWS = "SELECT g.seq, g.id, {now_us} - {us b.enqueued_at} AS age_us \
        FROM outbox_outgoing g LEFT JOIN outbox_body b ON b.id = g.id \
        WHERE g.partition_id = $partition AND g.seq > $after AND g.seq <= $upto \
        ORDER BY g.seq LIMIT $limit";
    PASSED_ATTEMPTS = "SELECT a.partition_id, a.consumer, a.seq FROM outbox_attempt a \
        JOIN outbox_cursor c ON c.partition_id = a.partition_id AND c.consumer = a.consumer \
        WHERE a.seq <= c.processed_seq LIMIT 100";
    DELETE_ATTEMPT = "DELETE FROM outbox_attempt \
        WHERE partition_id = $partition AND consumer = $consumer AND seq = $seq";
}

pub(in crate::database) async fn vacuum(
    db: &DatabaseConnection,
    request: &VacuumRequest<'_>,
    by_keys: &ByKeys,
) -> Result<Vec<Vacuumed>, DbErr> {
    let partitions = request.from.iter().map(|(partition, _)| *partition);
    let passed = PASSED_BY_ALL
        .with_numbers(partitions)
        .query(db, values! {})
        .await?;
    forget_passed_attempts(db).await?;
    let mut vacuumed = Vec::new();
    for row in &passed {
        let (partition, upto) = (row.try_get_by("partition_id")?, row.try_get_by("upto")?);
        let after = request.from.iter().find(|(id, _)| *id == partition);
        if let Some((_, after)) = after.filter(|(_, after)| *after < upto) {
            vacuumed.extend(vacuum_one(db, request, by_keys, (partition, *after, upto)).await?);
        }
    }
    Ok(vacuumed)
}

/// Deletes old rows of a partition beyond `after`, up to `upto`. It ends at the first row that is to
/// be retained.
async fn vacuum_one(
    db: &DatabaseConnection,
    request: &VacuumRequest<'_>,
    by_keys: &ByKeys,
    (partition_id, after, upto): (PartitionId, i64, i64),
) -> Result<Option<Vacuumed>, DbErr> {
    let values = values! {
        partition: partition_id,
        after: after,
        upto: upto,
        limit: request.limit,
    };
    let (mut seqs, mut ids): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
    for row in OLDEST_ROWS.query(db, values).await? {
        let age: Option<i64> = row.try_get_by("age_us")?;
        if age.is_some_and(|age| age < request.retention_us) {
            break;
        }
        seqs.push(row.try_get_by("seq")?);
        ids.push(row.try_get_by("id")?);
    }
    let Some(&last) = seqs.last() else {
        return Ok(None);
    };
    let tx = begin(db).await?;
    let outgoing = values! { partition: partition_id, seqs: json(&seqs) };
    by_keys.delete_outgoing.execute(&tx, outgoing).await?;
    let bodies = values! { ids: json(ids) };
    by_keys.delete_bodies.execute(&tx, bodies).await?;
    tx.commit().await?;
    Ok(Some(Vacuumed {
        partition_id,
        upto: last,
        rows: i64::try_from(seqs.len()).unwrap_or(i64::MAX),
    }))
}

/// Deletes records of attempts that are behind their cursor. The cursor moves in one statement and
/// its records go in the next: a process that dies in between leaves them.
async fn forget_passed_attempts(db: &DatabaseConnection) -> Result<(), DbErr> {
    for row in PASSED_ATTEMPTS.query(db, values! {}).await? {
        let record = values! {
            partition: row.try_get_by::<PartitionId, _>("partition_id")?,
            consumer: row.try_get_by::<String, _>("consumer")?,
            seq: row.try_get_by::<i64, _>("seq")?,
        };
        DELETE_ATTEMPT.execute(db, record).await?;
    }
    Ok(())
}
