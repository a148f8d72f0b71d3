//! What a consumer with many keys at a time asks: the lease alone, and messages
//! beyond those it knows.

use super::attempts::Attempts;
use super::cursor::{RawRow, micros, millis};
use super::sql::{execute, query};
use crate::queue::PartitionId;
use sea_orm::{DatabaseConnection, DbErr, QueryResult};
use std::time::Duration;

/// A lease on a cursor.
pub(crate) struct Held {
    pub(crate) epoch: i64,
    pub(crate) processed: i64,
    /// More than `processed` if the last one who had it died.
    pub(crate) claimed: i64,
}

/// What came of asking for a lease.
pub(crate) enum Acquired {
    Held(Held),
    /// There is nothing to do, or the queue is paused.
    Nothing,
    /// Somebody else has it.
    Busy,
}

/// Takes the lease if it is free or ours, and there is something to do.
pub(crate) async fn acquire(
    db: &DatabaseConnection,
    partition_id: PartitionId,
    consumer: &str,
    owner: &str,
    lease: Duration,
) -> Result<Acquired, DbErr> {
    let rows = query(
        db,
        "SELECT c.processed_seq, c.claimed_seq, c.lease_epoch, \
            CASE WHEN c.lease_until IS NULL OR c.lease_until <= {now} OR c.lease_owner = ? \
                THEN 1 ELSE 0 END, \
            CASE WHEN NOT q.paused AND EXISTS (SELECT 1 FROM outbox_outgoing o \
                WHERE o.partition_id = c.partition_id AND o.seq > c.processed_seq) \
                THEN 1 ELSE 0 END \
         FROM outbox_cursor c JOIN outbox_queue q ON q.id = ? \
         WHERE c.partition_id = ? AND c.consumer = ?",
        [
            owner.into(),
            partition_id.queue().into(),
            partition_id.into(),
            consumer.into(),
        ],
    )
    .await?;
    let Some(row) = rows.first() else {
        return Ok(Acquired::Busy);
    };
    let (processed, claimed): (i64, i64) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
    let epoch: i64 = row.try_get_by_index(2)?;
    if row.try_get_by_index::<i32>(3)? == 0 {
        return Ok(Acquired::Busy);
    }
    if row.try_get_by_index::<i32>(4)? == 0 {
        return Ok(Acquired::Nothing);
    }
    let taken = execute(
        db,
        "UPDATE outbox_cursor SET lease_owner = ?, lease_epoch = lease_epoch + 1, \
            lease_until = {now+?}, lease_ms = ? \
         WHERE partition_id = ? AND consumer = ? AND lease_epoch = ? AND processed_seq = ? \
            AND (lease_until IS NULL OR lease_until <= {now} OR lease_owner = ?)",
        [
            owner.into(),
            micros(lease).into(),
            millis(lease).into(),
            partition_id.into(),
            consumer.into(),
            epoch.into(),
            processed.into(),
            owner.into(),
        ],
    )
    .await?;
    if taken == 0 {
        return Ok(Acquired::Busy);
    }
    Ok(Acquired::Held(Held {
        epoch: epoch + 1,
        processed,
        claimed,
    }))
}

/// A message, and what is known of its attempts.
pub(crate) struct Known {
    pub(crate) row: RawRow,
    pub(crate) attempt: Option<Attempt>,
}

/// A record of attempts.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) attempts: Attempts,
    /// Whether the message is done, although the cursor is behind it.
    pub(crate) done: bool,
    /// Until it is due; nothing if it is.
    pub(crate) due_in: Duration,
}

/// The next messages after `after`, up to the one that reaches `most_bytes`, and whether
/// there may be more; none of a paused queue. The rows are in a subquery with its own limit:
/// joined first and limited afterwards, MariaDB would sort the whole log.
pub(crate) async fn read(
    db: &DatabaseConnection,
    partition_id: PartitionId,
    consumer: &str,
    after: i64,
    limit: u32,
    most_bytes: i64,
) -> Result<(Vec<Known>, bool), DbErr> {
    let rows = query(
        db,
        "SELECT o.seq, o.id, b.event_type, b.{key}, b.payload, b.headers, b.target, \
            {us(b.enqueued_at)}, b.nonce, a.failures, a.deaths, a.done, \
            {us(a.not_before)} - {now_us}, \
            CASE WHEN o.bytes_before < ? THEN 0 ELSE 1 END \
         FROM (SELECT s.seq, s.id, SUM(s.bytes) OVER (ORDER BY s.seq) - s.bytes AS bytes_before \
            FROM (SELECT g.seq, g.id, COALESCE(( \
                    SELECT LENGTH(p.payload) FROM outbox_body p WHERE p.id = g.id), 0) AS bytes \
                FROM outbox_outgoing g \
                WHERE g.partition_id = ? AND g.seq > ? \
                    AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.id = ? AND q.paused) \
                ORDER BY g.seq LIMIT ?) s) o \
         LEFT JOIN outbox_body b ON b.id = o.id AND o.bytes_before < ? \
         LEFT JOIN outbox_attempt a ON a.partition_id = ? AND a.consumer = ? AND a.seq = o.seq \
         ORDER BY o.seq",
        [
            most_bytes.into(),
            partition_id.into(),
            after.into(),
            partition_id.queue().into(),
            i64::from(limit).into(),
            most_bytes.into(),
            partition_id.into(),
            consumer.into(),
        ],
    )
    .await?;
    let beyond = |row: &QueryResult| row.try_get_by_index::<i32>(13).map(|beyond| beyond == 1);
    let beyond = rows
        .iter()
        .map(beyond)
        .collect::<Result<Vec<bool>, DbErr>>()?;
    let cut = beyond
        .iter()
        .position(|beyond| *beyond)
        .unwrap_or(rows.len());
    let known = rows[..cut]
        .iter()
        .map(|row| {
            let row_of_log = RawRow::read(row, row.try_get_by_index(0)?, 1)?;
            let Some(failures) = row.try_get_by_index::<Option<i32>>(9)? else {
                return Ok(Known {
                    row: row_of_log,
                    attempt: None,
                });
            };
            let due_in: i64 = row.try_get_by_index(12)?;
            let attempt = Attempt {
                attempts: Attempts {
                    failures,
                    deaths: row.try_get_by_index(10)?,
                },
                done: row.try_get_by_index(11)?,
                due_in: Duration::from_micros(due_in.max(0).unsigned_abs()),
            };
            Ok(Known {
                row: row_of_log,
                attempt: Some(attempt),
            })
        })
        .collect::<Result<_, DbErr>>()?;
    Ok((known, cut < rows.len() || rows.len() >= limit as usize))
}
