//! Records of messages that did not simply succeed: `outbox_attempt`.
//!
//! A record counts `failures` (the handler returned an error) and `deaths` (it never returned), or
//! says that a message is `done` although the cursor is behind it. It is deleted when the cursor
//! has passed. Changes are relative to what the record says, so that two processes that change it,
//! one after it lost its lease, do not undo each other's counts.

use super::cursor::micros;
use super::sql::{execute, list, query};
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DbErr};
use std::time::Duration;

/// What a record counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Attempts {
    /// How often the handler returned an error.
    pub(crate) failures: i32,
    /// How often it never returned.
    pub(crate) deaths: i32,
}

impl Attempts {
    pub(crate) fn total(self) -> i32 {
        self.failures.saturating_add(self.deaths)
    }
}

/// A change of one message's record.
#[derive(Debug)]
pub(crate) struct AttemptNote {
    pub(crate) seq: i64,
    pub(crate) change: AttemptChange,
}

#[derive(Debug)]
pub(crate) enum AttemptChange {
    /// A death, counted before the handler runs: should it kill the process, it is on record.
    Charged,
    /// The charge is taken back: the handler did not run, or the process lives.
    TakenBack,
    /// The handler failed.
    Failed {
        /// Whether a death was charged for this attempt, which it was not.
        charged: bool,
        /// How long until the next attempt.
        delay: Duration,
        reason: String,
    },
}

/// One more, unless there is no room for it.
const ONE_MORE_DEATH: &str = "CASE WHEN outbox_attempt.deaths < 2147483647 \
    THEN outbox_attempt.deaths + 1 ELSE outbox_attempt.deaths END";

/// Writes a change, for whoever holds the lease.
pub(crate) async fn write<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    note: &AttemptNote,
) -> Result<(), DbErr> {
    let seq = note.seq;
    match &note.change {
        AttemptChange::Charged => {
            let upsert = format!(
                "INSERT INTO outbox_attempt (partition_id, consumer, seq, deaths, not_before) \
                 VALUES (?, ?, ?, 1, {{now}}) {{or_update(partition_id, consumer, seq)}} \
                    deaths = {ONE_MORE_DEATH}"
            );
            let key = [partition_id.into(), consumer.into(), seq.into()];
            execute(conn, &upsert, key).await?;
        }
        AttemptChange::TakenBack => take_back(conn, partition_id, consumer, seq).await?,
        AttemptChange::Failed {
            charged,
            delay,
            reason,
        } => {
            let failure = (*charged, micros(*delay), reason.as_str());
            record_failure(conn, partition_id, consumer, seq, failure).await?;
        }
    }
    Ok(())
}

/// It is one statement: an UPDATE that finds no record would lock the gap on MySQL, and an INSERT
/// cannot tell there whether it met a record, because sqlx counts a row that stayed as it was.
async fn record_failure<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seq: i64,
    (charged, delay, reason): (bool, i64, &str),
) -> Result<(), DbErr> {
    execute(
        conn,
        "INSERT INTO outbox_attempt \
            (partition_id, consumer, seq, failures, first_failed_at, not_before, last_error) \
         VALUES (?, ?, ?, 1, {now}, {now+?}, ?) {or_update(partition_id, consumer, seq)} \
            failures = CASE WHEN outbox_attempt.failures < 2147483647 \
                THEN outbox_attempt.failures + 1 ELSE outbox_attempt.failures END, \
            deaths = outbox_attempt.deaths - \
                CASE WHEN outbox_attempt.deaths > 0 THEN ? ELSE 0 END, \
            first_failed_at = COALESCE(outbox_attempt.first_failed_at, {now}), \
            not_before = {now+?}, last_error = ?",
        [
            partition_id.into(),
            consumer.into(),
            seq.into(),
            delay.into(),
            reason.into(),
            i32::from(charged).into(),
            delay.into(),
            reason.into(),
        ],
    )
    .await?;
    Ok(())
}

/// Counts a death before the handler runs, in a statement of its own that must be committed before
/// that. False if the lease was lost: then nothing is written.
pub(crate) async fn charge<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    (owner, epoch): (&str, i64),
    seq: i64,
) -> Result<bool, DbErr> {
    let upsert = format!(
        "INSERT INTO outbox_attempt (partition_id, consumer, seq, deaths, not_before) \
         SELECT c.partition_id, c.consumer, ?, 1, {{now}} FROM outbox_cursor c \
         WHERE c.partition_id = ? AND c.consumer = ? AND c.lease_owner = ? AND c.lease_epoch = ? \
         {{or_update(partition_id, consumer, seq)}} deaths = {ONE_MORE_DEATH}"
    );
    let values = [
        seq.into(),
        partition_id.into(),
        consumer.into(),
        owner.into(),
        epoch.into(),
    ];
    Ok(execute(conn, &upsert, values).await? > 0)
}

/// Takes a charge back: the process lives. It needs no lease, because it only says what this
/// process knows of itself. A record that counts nothing any more is deleted.
pub(crate) async fn take_back<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seq: i64,
) -> Result<(), DbErr> {
    let key = || [partition_id.into(), consumer.into(), seq.into()];
    let update = "UPDATE outbox_attempt SET deaths = deaths - 1 \
        WHERE partition_id = ? AND consumer = ? AND seq = ? AND deaths > 0";
    let delete = "DELETE FROM outbox_attempt WHERE partition_id = ? AND consumer = ? AND seq = ? \
        AND failures = 0 AND deaths = 0 AND NOT done";
    execute(conn, update, key()).await?;
    execute(conn, delete, key()).await?;
    Ok(())
}

/// Remembers that messages are done although one before them is not.
pub(super) async fn mark_done<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seqs: &[i64],
) -> Result<(), DbErr> {
    // Of our own numbers, so that one statement does for a whole window.
    let seqs = list(seqs.iter().copied());
    let delete = format!(
        "DELETE FROM outbox_attempt WHERE partition_id = ? AND consumer = ? AND seq IN ({seqs})"
    );
    execute(conn, &delete, [partition_id.into(), consumer.into()]).await?;
    let insert = format!(
        "INSERT INTO outbox_attempt (partition_id, consumer, seq, done, not_before) \
         SELECT o.partition_id, ?, o.seq, TRUE, {{now}} FROM outbox_outgoing o \
         WHERE o.partition_id = ? AND o.seq IN ({seqs})"
    );
    execute(conn, &insert, [consumer.into(), partition_id.into()]).await?;
    Ok(())
}

/// Deletes the records that the cursor has passed.
pub(super) async fn forget<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
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

/// Why a message failed the last time, if a handler ever said.
pub(crate) async fn last_error<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seq: i64,
) -> Result<Option<String>, DbErr> {
    let rows = query(
        conn,
        "SELECT last_error FROM outbox_attempt WHERE partition_id = ? AND consumer = ? AND seq = ?",
        [partition_id.into(), consumer.into(), seq.into()],
    )
    .await?;
    let error = rows.first().map(|row| row.try_get_by_index(0));
    Ok(error.transpose()?.flatten())
}
