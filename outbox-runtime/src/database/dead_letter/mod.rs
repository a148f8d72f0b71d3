//! Dead letters: reading them, changing their state, sending them again.
//!
//! Invariant: every change of state says in its own WHERE from which state it
//! goes, and whose the letter must be; what it did not find so it did not change.

pub(super) mod change;
mod condition;
pub(super) mod requeue;

pub(crate) use change::{Change, Holder, Part, change, delete_completed, eligible};
pub(crate) use condition::LetterFilter;
pub(crate) use requeue::{can_be_requeued, send_again};

use super::statement::{Run, statements, values};
use crate::queue::Slot;
use condition::Condition;
use sea_orm::{ConnectionTrait, DbErr, QueryResult};

statements! { EVERY;
    LETTERS = file "../shared/letters.sql";
    COUNT = "SELECT COUNT(*) AS letters FROM outbox_dead_letter WHERE {condition}";
    NEWEST = "SELECT MAX(id) AS newest FROM outbox_dead_letter";
}

/// A dead letter as the database has it. Times are microseconds since 1970.
pub(crate) struct LetterRow {
    pub(crate) id: i64,
    pub(crate) queue: String,
    pub(crate) partition: u32,
    pub(crate) consumer: String,
    pub(crate) seq: i64,
    pub(crate) message_id: i64,
    pub(crate) event_type: String,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Option<String>,
    pub(crate) enqueued_us: i64,
    pub(crate) failed_us: i64,
    pub(crate) attempts: u32,
    pub(crate) reason: String,
    pub(crate) status: String,
    pub(crate) deadline_us: Option<i64>,
    pub(crate) completed_us: Option<i64>,
    pub(crate) requeued_as: Option<i64>,
    pub(crate) slot: Slot,
    pub(crate) nonce: i64,
}

/// The letters of a page beyond an id, by id. From the last page's end by key: a late page costs no
/// more than the first.
pub(crate) async fn page<C: ConnectionTrait>(
    conn: &C,
    filter: &LetterFilter<'_>,
    after: i64,
    limit: u32,
) -> Result<Vec<LetterRow>, DbErr> {
    let mut condition = Condition::of("1 = 1");
    condition.and("id > $after", "after", after);
    condition.and_filter(filter);
    letters(conn, condition, limit.into()).await
}

/// These letters, by id.
pub(crate) async fn by_ids<C: ConnectionTrait>(
    conn: &C,
    ids: &[i64],
) -> Result<Vec<LetterRow>, DbErr> {
    let mut condition = Condition::of("1 = 1");
    condition.and_ids(ids);
    letters(conn, condition, i64::MAX).await
}

async fn letters<C: ConnectionTrait>(
    conn: &C,
    condition: Condition,
    limit: i64,
) -> Result<Vec<LetterRow>, DbErr> {
    let letters = condition.of_statement(&LETTERS);
    let rows = letters.query(conn, values! { limit: limit }).await?;
    rows.iter().map(letter).collect()
}

/// How many letters there are.
pub(crate) async fn count<C: ConnectionTrait>(
    conn: &C,
    filter: &LetterFilter<'_>,
) -> Result<u64, DbErr> {
    let mut condition = Condition::of("1 = 1");
    condition.and_filter(filter);
    let row = condition
        .of_statement(&COUNT)
        .first(conn, values! {})
        .await?;
    let count: i64 = row.map_or(Ok(0), |row| row.try_get_by("letters"))?;
    Ok(count.unsigned_abs())
}

/// The highest id there is: what comes later was not meant.
pub(crate) async fn newest<C: ConnectionTrait>(conn: &C) -> Result<i64, DbErr> {
    let row = NEWEST.first(conn, values! {}).await?;
    let newest = row.map(|row| row.try_get_by("newest"));
    Ok(newest.transpose()?.flatten().unwrap_or(0))
}

fn letter(row: &QueryResult) -> Result<LetterRow, DbErr> {
    Ok(LetterRow {
        id: row.try_get_by("id")?,
        queue: row.try_get_by("queue")?,
        partition: row
            .try_get_by::<i16, _>("partition_number")?
            .unsigned_abs()
            .into(),
        consumer: row.try_get_by("consumer")?,
        seq: row.try_get_by("seq")?,
        message_id: row.try_get_by("message_id")?,
        event_type: row.try_get_by("event_type")?,
        key: row.try_get_by("key")?,
        payload: row.try_get_by("payload")?,
        headers: row.try_get_by("headers")?,
        enqueued_us: row.try_get_by("enqueued_us")?,
        failed_us: row.try_get_by("failed_us")?,
        attempts: row.try_get_by::<i32, _>("attempts")?.unsigned_abs(),
        reason: row.try_get_by("reason")?,
        status: row.try_get_by("status")?,
        deadline_us: row.try_get_by("deadline_us")?,
        completed_us: row.try_get_by("completed_us")?,
        requeued_as: row.try_get_by("requeued_as")?,
        slot: Slot::from_stored(row.try_get_by("slot")?),
        nonce: row.try_get_by("nonce")?,
    })
}
