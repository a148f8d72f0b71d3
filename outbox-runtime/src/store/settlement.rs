//! The end of a claim that did not go well: progress, the failed attempt and dead
//! letters, all or nothing, and only for who holds the lease.

use super::cursor::micros;
use super::registration::begin;
use super::sql::execute;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use std::time::Duration;

/// A failed attempt.
pub(crate) struct Failure {
    pub(crate) seq: i64,
    /// How many there were, this one included; 0 takes the record away.
    pub(crate) attempts: i32,
    /// Whether it was counted when the message was claimed.
    pub(crate) charged: bool,
    /// How long until the next.
    pub(crate) delay: Duration,
    /// Why; `None` keeps the reason there is.
    pub(crate) reason: Option<String>,
}

/// A message to bury.
pub(crate) struct Burial {
    pub(crate) seq: i64,
    pub(crate) id: i64,
    pub(crate) attempts: i32,
    pub(crate) reason: String,
}

/// The end of a claim that did not go well, or of a whole one at shutdown.
pub(crate) struct Settlement<'a> {
    pub(crate) queue: &'a str,
    pub(crate) partition_id: i64,
    pub(crate) consumer: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) epoch: i64,
    pub(crate) processed: i64,
    pub(crate) claimed: i64,
    pub(crate) failure: Option<Failure>,
    pub(crate) burials: Vec<Burial>,
}

/// Writes progress, the failed attempt and dead letters, and gives the lease
/// back; all or nothing. False if the lease was lost: then nothing is written.
pub(crate) async fn settle(
    db: &DatabaseConnection,
    settlement: &Settlement<'_>,
) -> Result<bool, DbErr> {
    let s = settlement;
    let tx = begin(db).await?;
    let held = execute(
        &tx,
        // The epoch is raised so that who read the cursor before does not claim
        // by it; and a cursor never goes back, should an earlier commit whose answer
        // was lost have moved it.
        "UPDATE outbox_cursor SET processed_seq = ?, claimed_seq = ?, \
            lease_epoch = lease_epoch + 1, lease_owner = NULL, lease_until = NULL \
         WHERE partition_id = ? AND consumer = ? AND lease_owner = ? AND lease_epoch = ? \
            AND processed_seq <= ?",
        [
            s.processed.into(),
            s.claimed.max(s.processed).into(),
            s.partition_id.into(),
            s.consumer.into(),
            s.owner.into(),
            s.epoch.into(),
            s.processed.into(),
        ],
    )
    .await?;
    if held == 0 {
        return Ok(false);
    }
    for burial in &s.burials {
        bury(&tx, s, burial).await?;
    }
    forget_attempts(&tx, s.partition_id, s.consumer, s.processed).await?;
    if let Some(failure) = &s.failure {
        record_failure(&tx, s.partition_id, s.consumer, failure).await?;
    }
    tx.commit().await?;
    Ok(true)
}

async fn bury<C: ConnectionTrait>(
    conn: &C,
    s: &Settlement<'_>,
    burial: &Burial,
) -> Result<(), DbErr> {
    execute(
        conn,
        "INSERT INTO outbox_dead_letter (queue, {partition}, consumer, seq, message_id, event_type, \
            {key}, payload, headers, enqueued_at, failed_at, attempts, reason, status) \
         SELECT ?, ?, ?, ?, b.id, b.event_type, b.{key}, b.payload, b.headers, b.enqueued_at, {now}, \
            ?, ?, 'pending' \
         FROM outbox_body b WHERE b.id = ?",
        [
            s.queue.into(),
            (s.partition_id & 0x3f).into(),
            s.consumer.into(),
            burial.seq.into(),
            burial.attempts.into(),
            burial.reason.as_str().into(),
            burial.id.into(),
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn forget_attempts<C: ConnectionTrait>(
    conn: &C,
    partition_id: i64,
    consumer: &str,
    upto: i64,
) -> Result<(), DbErr> {
    execute(
        conn,
        "DELETE FROM outbox_attempt WHERE partition_id = ? AND consumer = ? AND seq <= ?",
        [partition_id.into(), consumer.into(), upto.into()],
    )
    .await?;
    Ok(())
}

/// Insert or update, said in a way every engine understands: only who holds the
/// lease writes these rows, so nobody is in between.
pub(super) async fn record_failure<C: ConnectionTrait>(
    conn: &C,
    partition_id: i64,
    consumer: &str,
    failure: &Failure,
) -> Result<(), DbErr> {
    if failure.attempts <= 0 {
        let only = [partition_id.into(), consumer.into(), failure.seq.into()];
        let delete =
            "DELETE FROM outbox_attempt WHERE partition_id = ? AND consumer = ? AND seq = ?";
        execute(conn, delete, only).await?;
        return Ok(());
    }
    let reason = failure.reason.clone();
    // Without a charge there should be no record; if there is one, it goes on.
    let attempts = if failure.charged { "?" } else { "attempts + ?" };
    let update = format!(
        "UPDATE outbox_attempt SET attempts = {attempts}, not_before = {{now+?}}, \
            last_error = COALESCE(?, last_error) \
         WHERE partition_id = ? AND consumer = ? AND seq = ?"
    );
    let changed = execute(
        conn,
        &update,
        [
            failure.attempts.into(),
            micros(failure.delay).into(),
            reason.clone().into(),
            partition_id.into(),
            consumer.into(),
            failure.seq.into(),
        ],
    )
    .await?;
    if changed == 0 {
        execute(
            conn,
            "INSERT INTO outbox_attempt (partition_id, consumer, seq, attempts, not_before, last_error) \
             VALUES (?, ?, ?, ?, {now+?}, ?)",
            [
                partition_id.into(),
                consumer.into(),
                failure.seq.into(),
                failure.attempts.into(),
                micros(failure.delay).into(),
                reason.into(),
            ],
        )
        .await?;
    }
    Ok(())
}
