//! What a consumer that runs many keys at a time asks for: the lease alone, and the messages behind
//! those that it knows.

use super::attempts::Attempts;
use super::cursor::{MessageColumns, RawRow, micros, millis};
use super::statement::{Run, statements, values};
use crate::queue::PartitionId;
use sea_orm::{DatabaseConnection, DbErr, QueryResult};
use std::time::Duration;

statements! { EVERY;
    READ_CURSOR = file "shared/read_cursor.sql";
    TAKE_LEASE = file "shared/take_lease.sql";
    READ_WINDOW = file "shared/read_window.sql";
}

/// A lease on a cursor.
pub(crate) struct Held {
    pub(crate) epoch: i64,
    pub(crate) processed: i64,
    /// More than `processed` if the process that held the lease before has died.
    pub(crate) claimed: i64,
}

/// The answer to a request for a lease.
pub(crate) enum Acquired {
    Held(Held),
    /// There is nothing to do, or the queue is paused.
    Nothing,
    /// Another process holds it.
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
    let cursor = values! {
        partition: partition_id,
        queue: partition_id.queue(),
        consumer: consumer,
        owner: owner,
    };
    let Some(row) = READ_CURSOR.first(db, cursor).await? else {
        return Ok(Acquired::Busy);
    };
    if row.try_get_by::<i32, _>("is_free")? == 0 {
        return Ok(Acquired::Busy);
    }
    if row.try_get_by::<i32, _>("has_work")? == 0 {
        return Ok(Acquired::Nothing);
    }
    let held = Held {
        epoch: row.try_get_by::<i64, _>("lease_epoch")? + 1,
        processed: row.try_get_by("processed_seq")?,
        claimed: row.try_get_by("claimed_seq")?,
    };
    let take = values! {
        partition: partition_id,
        consumer: consumer,
        owner: owner,
        read_epoch: held.epoch - 1,
        read_processed: held.processed,
        lease_us: micros(lease),
        lease_ms: millis(lease),
    };
    Ok(match TAKE_LEASE.execute(db, take).await? {
        0 => Acquired::Busy,
        _ => Acquired::Held(held),
    })
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
/// there may be more; none of a paused queue.
pub(crate) async fn read(
    db: &DatabaseConnection,
    partition_id: PartitionId,
    consumer: &str,
    after: i64,
    limit: u32,
    most_bytes: i64,
) -> Result<(Vec<Known>, bool), DbErr> {
    let values = values! {
        partition: partition_id,
        queue: partition_id.queue(),
        consumer: consumer,
        after: after,
        most_messages: i64::from(limit),
        most_bytes: most_bytes,
    };
    let rows = READ_WINDOW.query(db, values).await?;
    let Some(first) = rows.first() else {
        return Ok((Vec::new(), false));
    };
    let columns = MessageColumns::of(first)?;
    let mut known = Vec::with_capacity(rows.len());
    for row in &rows {
        if row.try_get_by::<i32, _>("is_beyond")? == 1 {
            // There is more than its bytes allow.
            return Ok((known, true));
        }
        known.push(Known {
            row: columns.read(row, row.try_get_by("seq")?)?,
            attempt: attempt(row)?,
        });
    }
    Ok((known, rows.len() >= limit as usize))
}

/// What is on record of a row's message.
fn attempt(row: &QueryResult) -> Result<Option<Attempt>, DbErr> {
    let Some(failures) = row.try_get_by::<Option<i32>, _>("failures")? else {
        return Ok(None);
    };
    let due_in: i64 = row.try_get_by("due_in_us")?;
    Ok(Some(Attempt {
        attempts: Attempts {
            failures,
            deaths: row.try_get_by("deaths")?,
        },
        done: row.try_get_by("done")?,
        due_in: Duration::from_micros(due_in.max(0).unsigned_abs()),
    }))
}
