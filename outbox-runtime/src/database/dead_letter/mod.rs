//! Dead letters: reading them, changing their state, sending them again.
//!
//! Invariant: every change of state says in its own WHERE from which state it
//! goes, and whose the letter must be; what it did not find so it did not change.

mod change;
mod condition;
mod requeue;

pub(crate) use change::{Change, Holder, Part, change, delete_completed, eligible};
pub(crate) use requeue::{can_be_requeued, send_again};

use super::sql::query;
use crate::event::message::Headers;
use crate::event::unique::UniqueId;
use crate::operate::dead_letter::{DeadLetterFilter, DeadLetterMessage, DeadLetterStatus};
use crate::queue::Slot;
use condition::Condition;
use sea_orm::{ConnectionTrait, DbErr, QueryResult};
use std::time::{Duration, SystemTime};

const LETTER: &str = "SELECT id, queue, {partition}, consumer, seq, message_id, event_type, {key}, \
    payload, headers, {us(enqueued_at)}, {us(failed_at)}, attempts, reason, status, \
    {us(deadline)}, {us(completed_at)}, requeued_as, slot, nonce FROM outbox_dead_letter";

/// The letters of a page, by id.
pub(crate) async fn page<C: ConnectionTrait>(
    conn: &C,
    filter: &DeadLetterFilter,
    limit: u32,
) -> Result<Vec<DeadLetterMessage>, DbErr> {
    // From the last page's end by key: a late page costs no more than the first.
    let mut condition = Condition::of("1 = 1");
    condition.and("id > ?", filter.after.map_or(0, |id| id.get()));
    condition.and_filter(filter);
    condition.values.push(i64::from(limit).into());
    let select = format!("{LETTER} WHERE {} ORDER BY id LIMIT ?", condition.text);
    letters(&query(conn, &select, condition.values).await?)
}

/// How many letters there are.
pub(crate) async fn count<C: ConnectionTrait>(
    conn: &C,
    filter: &DeadLetterFilter,
) -> Result<u64, DbErr> {
    let mut condition = Condition::of("1 = 1");
    condition.and_filter(filter);
    let select = format!(
        "SELECT COUNT(*) FROM outbox_dead_letter WHERE {}",
        condition.text
    );
    let rows = query(conn, &select, condition.values).await?;
    let count: i64 = rows.first().map_or(Ok(0), |row| row.try_get_by_index(0))?;
    Ok(count.unsigned_abs())
}

/// These letters, by id.
pub(crate) async fn by_ids<C: ConnectionTrait>(
    conn: &C,
    ids: &[i64],
) -> Result<Vec<DeadLetterMessage>, DbErr> {
    let mut condition = Condition::of("1 = 1");
    condition.and_ids(ids);
    let select = format!("{LETTER} WHERE {} ORDER BY id", condition.text);
    letters(&query(conn, &select, []).await?)
}

/// The highest id there is: what comes later was not meant.
pub(crate) async fn newest<C: ConnectionTrait>(conn: &C) -> Result<i64, DbErr> {
    let rows = query(conn, "SELECT MAX(id) FROM outbox_dead_letter", []).await?;
    let newest = rows.first().map(|row| row.try_get_by_index(0));
    Ok(newest.transpose()?.flatten().unwrap_or(0))
}

fn letters(rows: &[QueryResult]) -> Result<Vec<DeadLetterMessage>, DbErr> {
    rows.iter().map(letter).collect()
}

fn letter(row: &QueryResult) -> Result<DeadLetterMessage, DbErr> {
    let id: i64 = row.try_get_by_index(0)?;
    let message_id: i64 = row.try_get_by_index(5)?;
    let headers: Option<String> = row.try_get_by_index(9)?;
    let headers = headers.map(|json| Headers::decode(&json));
    let headers = headers.unwrap_or_default();
    let status: String = row.try_get_by_index(14)?;
    let unknown = || DbErr::Type(format!("dead letter {id} has the status `{status}`"));
    Ok(DeadLetterMessage {
        id: id.into(),
        queue: row.try_get_by_index(1)?,
        partition: row.try_get_by_index::<i16>(2)?.unsigned_abs().into(),
        consumer: row.try_get_by_index(3)?,
        sequence: row.try_get_by_index(4)?,
        message_id: message_id.into(),
        event_type: row.try_get_by_index(6)?,
        key: row.try_get_by_index(7)?,
        payload: row.try_get_by_index(8)?,
        enqueued_at: time(row.try_get_by_index(10)?),
        failed_at: time(row.try_get_by_index(11)?),
        attempts: row.try_get_by_index::<i32>(12)?.unsigned_abs(),
        reason: row.try_get_by_index(13)?,
        status: DeadLetterStatus::parse(&status).ok_or_else(unknown)?,
        deadline: row.try_get_by_index::<Option<i64>>(15)?.map(time),
        completed_at: row.try_get_by_index::<Option<i64>>(16)?.map(time),
        requeued_as: row.try_get_by_index::<Option<i64>>(17)?.map(Into::into),
        slot: Slot::from_stored(row.try_get_by_index(18)?),
        unique_id: UniqueId::of(message_id, row.try_get_by_index(19)?, &headers),
        headers,
    })
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}
