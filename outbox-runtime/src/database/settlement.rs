//! The end of a claim that did not go well: progress, the failed attempt and dead
//! letters, all or nothing, and only for who holds the lease.

use super::attempts::{self, AttemptNote};
use super::cursor::micros;
use super::registration::begin;
use super::sql::{execute, insert, query};
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

/// The end of a claim that did not go well, or of a whole one at shutdown.
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

/// The epoch is raised so that who read the cursor before does not claim by it, and
/// so that this is not done twice if its answer is lost; and a cursor never goes
/// back, should an earlier commit whose answer was lost have moved it. What was read
/// before is claimed only if it has its number still: a crash of the server may have
/// undone the numbering, and what has the number now would be passed over.
async fn move_cursor<C: ConnectionTrait>(conn: &C, s: &Settlement<'_>) -> Result<bool, DbErr> {
    let lease = match s.keep {
        Some(_) => "lease_until = {now+?}",
        None => "lease_owner = NULL, lease_until = NULL",
    };
    let still = match s.read {
        Some(_) => {
            "AND EXISTS (SELECT 1 FROM outbox_outgoing o \
                WHERE o.partition_id = ? AND o.seq = ? AND o.id = ?)"
        }
        None => "",
    };
    let update = format!(
        "UPDATE outbox_cursor SET processed_seq = ?, claimed_seq = ?, \
            lease_epoch = lease_epoch + 1, {lease} \
         WHERE partition_id = ? AND consumer = ? AND lease_owner = ? AND lease_epoch = ? \
            AND processed_seq <= ? {still}"
    );
    let mut values = vec![s.processed.into(), s.claimed.max(s.processed).into()];
    values.extend(s.keep.map(|lease| micros(lease).into()));
    values.extend([
        s.partition_id.into(),
        s.consumer.into(),
        s.owner.into(),
        s.epoch.into(),
        s.processed.into(),
    ]);
    if let Some((seq, id)) = s.read {
        values.extend([s.partition_id.into(), seq.into(), id.into()]);
    }
    Ok(execute(conn, &update, values).await? > 0)
}

/// What became of a settlement whose answer was lost.
pub(crate) enum Found {
    /// It is written, and the cursor is as it left it. With the ids of the dead letters.
    Settled(Vec<Option<i64>>),
    /// Its dead letters are written, and somebody has moved the cursor since.
    Overtaken(Vec<Option<i64>>),
    /// Nothing says that it is written, or that it is not.
    Unknown,
}

/// Looks for a settlement that the cursor refuses after an answer was lost: maybe that was the
/// answer to its commit.
///
/// A settlement raises the epoch by one. Where the lease was kept, the next epoch under our
/// name is proof: who holds a lease writes one settlement after the other. Where it was
/// given back, the next epoch may also be somebody else's claim, acknowledged since: then
/// the cursor is where we would have left it by chance at most, and no letter is there.
/// Behind somebody else's claim the letters are what is left as proof. If ours was lost and
/// that process has buried the same messages, they are announced twice.
pub(crate) async fn find_settled(
    db: &DatabaseConnection,
    s: &Settlement<'_>,
) -> Result<Found, DbErr> {
    let mut values = vec![
        s.partition_id.into(),
        s.consumer.into(),
        (s.epoch + 1).into(),
    ];
    let ours = match s.keep {
        Some(_) => {
            values.push(s.owner.into());
            "lease_owner = ?"
        }
        None => {
            values.extend([s.processed.into(), s.claimed.max(s.processed).into()]);
            "lease_owner IS NULL AND processed_seq = ? AND claimed_seq = ?"
        }
    };
    let cursor = format!(
        "SELECT lease_epoch FROM outbox_cursor \
         WHERE partition_id = ? AND consumer = ? AND lease_epoch = ? AND {ours}"
    );
    let as_left = !query(db, &cursor, values).await?.is_empty();
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
    let rows = query(
        conn,
        "SELECT id FROM outbox_dead_letter \
         WHERE queue = ? AND {partition} = ? AND consumer = ? AND seq = ? AND message_id = ? \
         ORDER BY id DESC LIMIT 1",
        [
            s.queue.into(),
            s.partition_id.number().into(),
            s.consumer.into(),
            burial.seq.into(),
            burial.id.into(),
        ],
    )
    .await?;
    rows.first().map(|row| row.try_get_by_index(0)).transpose()
}

async fn bury<C: ConnectionTrait>(
    conn: &C,
    s: &Settlement<'_>,
    burial: &Burial,
) -> Result<Option<i64>, DbErr> {
    insert(
        conn,
        "INSERT INTO outbox_dead_letter (queue, {partition}, consumer, seq, message_id, event_type, \
            {key}, payload, headers, enqueued_at, failed_at, attempts, reason, status, slot, \
            nonce) \
         SELECT ?, ?, ?, ?, b.id, b.event_type, b.{key}, b.payload, NULLIF(b.headers, ''), \
            b.enqueued_at, {now}, \
            ?, ?, 'pending', b.slot, b.nonce \
         FROM outbox_body b WHERE b.id = ?",
        [
            s.queue.into(),
            s.partition_id.number().into(),
            s.consumer.into(),
            burial.seq.into(),
            burial.attempts.into(),
            burial.reason.as_str().into(),
            burial.id.into(),
        ],
    )
    .await
}
