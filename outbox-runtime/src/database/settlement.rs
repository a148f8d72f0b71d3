//! Settling: the end of a claim that did not simply go well. Progress, failed attempts and dead
//! letters are written together or not at all, and only by the process that holds the lease.

use super::attempts::{self, AttemptNote};
use super::cursor::micros;
use super::statement::{Run, and, statements, values};
use super::transaction::begin;
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr};
use std::time::Duration;

/// A message to bury.
pub(crate) struct Burial {
    pub(crate) seq: i64,
    pub(crate) id: i64,
    pub(crate) attempts: i32,
    pub(crate) reason: String,
}

/// What is written at the end of a claim that did not simply go well, or that a stop ended.
pub(crate) struct Settlement<'a> {
    pub(crate) queue: &'a str,
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) epoch: i64,
    pub(crate) processed: i64,
    pub(crate) claimed: i64,
    /// Number and id of the last message that is claimed by this.
    pub(crate) read: Option<(i64, i64)>,
    /// What is to be written down of attempts.
    pub(crate) notes: Vec<AttemptNote>,
    pub(crate) burials: Vec<Burial>,
    /// Done although something before it is not.
    pub(crate) done_beyond: Vec<i64>,
    /// Whether there may be records of attempts up to `processed`.
    pub(crate) forget_attempts: bool,
    /// How long the lease is kept; `None` gives it back.
    pub(crate) keep: Option<Duration>,
}

impl Settlement<'_> {
    /// Whether the cursor is all that changes.
    fn is_progress_only(&self) -> bool {
        let nothing = self.notes.is_empty() && self.burials.is_empty();
        nothing && self.done_beyond.is_empty() && !self.forget_attempts
    }
}

/// Writes progress, failed attempts and dead letters, and gives the lease back or
/// keeps it under the next epoch; all or nothing. Returns the ids of the dead letters,
/// one for each burial; `None` if the lease was lost: then nothing is written.
pub(crate) async fn settle(
    db: &DatabaseConnection,
    settlement: &Settlement<'_>,
) -> Result<Option<Vec<Option<i64>>>, DbErr> {
    let s = settlement;
    if s.is_progress_only() {
        return Ok(move_cursor(db, s).await?.then(Vec::new));
    }
    settle_in(begin(db).await?, s).await
}

/// The same in a transaction that has begun, on a connection in hand; it is committed.
pub(crate) async fn settle_in(
    tx: DatabaseTransaction,
    settlement: &Settlement<'_>,
) -> Result<Option<Vec<Option<i64>>>, DbErr> {
    let s = settlement;
    if !move_cursor(&tx, s).await? {
        return Ok(None);
    }
    let mut letters = Vec::with_capacity(s.burials.len());
    for burial in &s.burials {
        letters.push(bury(&tx, s, burial).await?);
    }
    let buried = s.burials.iter().map(|burial| burial.seq);
    let beyond = buried.chain(s.done_beyond.iter().copied());
    let beyond: Vec<i64> = beyond.filter(|seq| *seq > s.processed).collect();
    if !beyond.is_empty() {
        attempts::mark_done(&tx, s.partition_id, s.consumer, &beyond).await?;
    }
    if s.forget_attempts {
        attempts::forget(&tx, s.partition_id, s.consumer, s.processed).await?;
    }
    for note in &s.notes {
        attempts::write(&tx, s.partition_id, s.consumer, note).await?;
    }
    tx.commit().await?;
    Ok(Some(letters))
}

statements! { EVERY;
    KEEP_LEASE = file "shared/move_cursor.sql", {
        lease: "lease_until = {after $lease_us}", still_numbered: ""
    };
    KEEP_LEASE_AND_CLAIM = file "shared/move_cursor.sql", {
        lease: "lease_until = {after $lease_us}",
        still_numbered: include_str!("shared/still_numbered.sql")
    };
    GIVE_BACK = file "shared/move_cursor.sql", {
        lease: "lease_owner = NULL, lease_until = NULL", still_numbered: ""
    };
    IS_KEPT = "SELECT lease_epoch FROM outbox_cursor \
        WHERE partition_id = $partition AND consumer = $consumer AND lease_epoch = $epoch \
            AND lease_owner = $owner";
    IS_GIVEN_BACK = "SELECT lease_epoch FROM outbox_cursor \
        WHERE partition_id = $partition AND consumer = $consumer AND lease_epoch = $epoch \
            AND lease_owner IS NULL AND processed_seq = $processed AND claimed_seq = $claimed";
    BURY = file "shared/bury.sql";
    FIND_LETTER = "SELECT id FROM outbox_dead_letter \
        WHERE queue = $queue AND {partition} = $partition AND consumer = $consumer \
            AND seq = $seq AND message_id = $id ORDER BY id DESC LIMIT 1";
}

/// False if the lease was lost.
async fn move_cursor<C: ConnectionTrait>(conn: &C, s: &Settlement<'_>) -> Result<bool, DbErr> {
    let cursor = values! {
        partition: s.partition_id,
        consumer: s.consumer,
        owner: s.owner,
        epoch: s.epoch,
        processed: s.processed,
        claimed: s.claimed.max(s.processed),
    };
    let moved = match (s.keep, s.read) {
        // What is given back claims nothing that was read.
        (None, _) => GIVE_BACK.execute(conn, cursor).await?,
        (Some(lease), None) => {
            let lease = values! { lease_us: micros(lease) };
            KEEP_LEASE.execute(conn, and(cursor, lease)).await?
        }
        (Some(lease), Some((seq, id))) => {
            let lease = values! { lease_us: micros(lease), read_seq: seq, read_id: id };
            let values = and(cursor, lease);
            KEEP_LEASE_AND_CLAIM.execute(conn, values).await?
        }
    };
    Ok(moved > 0)
}

/// What became of a settlement whose answer was lost.
pub(crate) enum Found {
    /// It is written, and the cursor is as it left it. With the ids of the dead letters.
    Settled(Vec<Option<i64>>),
    /// Its dead letters are written, and another process has moved the cursor since.
    Overtaken(Vec<Option<i64>>),
    /// Nothing proves that it is written, or that it is not.
    Unknown,
}

/// Looks for a settlement whose answer was lost and that the cursor refuses now. Maybe the lost answer
/// was the one to its commit.
///
/// A settlement raises the epoch by one. If the lease was kept, the next epoch under our name is
/// proof, because a process that holds a lease writes one settlement after the other. If the lease
/// was given back, the next epoch may also be another process's claim, which it has acknowledged. Then
/// the cursor is where we would have left it by chance at most, and the dead letters are missing.
/// Behind another process's claim, the dead letters are the only proof. If our settlement was lost and
/// that process has buried the same messages, they are announced twice.
pub(crate) async fn find_settled(
    db: &DatabaseConnection,
    s: &Settlement<'_>,
) -> Result<Found, DbErr> {
    let cursor = values! {
        partition: s.partition_id,
        consumer: s.consumer,
        epoch: s.epoch + 1,
    };
    let as_left = match s.keep {
        Some(_) => {
            let owner = values! { owner: s.owner };
            IS_KEPT.first(db, and(cursor, owner)).await?
        }
        None => {
            let left = values! {
                processed: s.processed,
                claimed: s.claimed.max(s.processed),
            };
            IS_GIVEN_BACK.first(db, and(cursor, left)).await?
        }
    };
    let as_left = as_left.is_some();
    let mut letters = Vec::with_capacity(s.burials.len());
    for burial in &s.burials {
        letters.push(find_letter(db, s, burial).await?);
    }
    let all = letters.iter().all(Option::is_some);
    Ok(if as_left && (s.keep.is_some() || all) {
        Found::Settled(letters)
    } else if all && !letters.is_empty() {
        Found::Overtaken(letters)
    } else {
        Found::Unknown
    })
}

/// The dead letter of a burial. It is one of the newest.
async fn find_letter<C: ConnectionTrait>(
    conn: &C,
    s: &Settlement<'_>,
    burial: &Burial,
) -> Result<Option<i64>, DbErr> {
    let values = values! {
        queue: s.queue,
        partition: s.partition_id.number(),
        consumer: s.consumer,
        seq: burial.seq,
        id: burial.id,
    };
    let row = FIND_LETTER.first(conn, values).await?;
    row.map(|row| row.try_get_by("id")).transpose()
}

async fn bury<C: ConnectionTrait>(
    conn: &C,
    s: &Settlement<'_>,
    burial: &Burial,
) -> Result<Option<i64>, DbErr> {
    let values = values! {
        queue: s.queue,
        partition: s.partition_id.number(),
        consumer: s.consumer,
        seq: burial.seq,
        id: burial.id,
        attempts: burial.attempts,
        reason: burial.reason.as_str(),
    };
    BURY.insert(conn, values).await
}
