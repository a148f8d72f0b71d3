//! A consumer's place in a partition: claim, acknowledge, settle.
//!
//! Invariants: progress is written only by who holds the lease, matched by owner
//! *and* epoch; every claim raises the epoch; `claimed_seq > processed_seq` under
//! a lease that is over means that a claim died, and then messages are claimed
//! one at a time until that claim is passed, and a death is charged before each handler runs
//! ([`attempts`](super::attempts)). A message with a record of attempts is claimed alone too, unless
//! the record says that it is done. An empty poll writes nothing. If the cursor names us as owner
//! but we hold no claim, the answer to our claim was lost: we may claim again at once.

use super::attempts::{self, Attempts};
use super::sql::{execute, query, query_up_to};
use crate::database::dialect::{self, Dialect};
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DbErr, QueryResult, StreamTrait};
use std::time::Duration;

/// What is acknowledged with a claim.
pub(crate) struct Ack {
    /// The claim it belongs to.
    pub(crate) epoch: i64,
    /// Everything up to here is done.
    pub(crate) processed: i64,
    /// The number and id of the last message that is done, or of the next one. A server that
    /// crashed may have lost the claim and the numbers, and given the epoch and the numbers
    /// away again: this is what tells.
    pub(crate) anchor: (i64, i64),
    /// What stays marked as claimed: more than `processed` while recovering.
    pub(crate) claimed: i64,
    /// Whether one of the done messages has a record of attempts.
    pub(crate) forget_attempts: bool,
    /// The message for which a death was charged, which it did not die.
    pub(crate) charged: Option<i64>,
}

pub(crate) struct ClaimRequest<'a> {
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) lease: Duration,
    pub(crate) limit: u32,
    /// How many bytes of payloads it takes: it ends with the message that reaches this.
    pub(crate) most_bytes: i64,
    pub(crate) ack: Option<Ack>,
    /// Where the cursor was last, for engines that find it sooner by that.
    pub(crate) place: Option<&'a Place>,
    /// Suspects of a process's death to leave alone.
    pub(crate) refuse: Refuse,
    /// Whether the commit may be asynchronous: never with a user's writes.
    pub(crate) asynchronous: bool,
}

impl ClaimRequest<'_> {
    pub(crate) fn lease_micros(&self) -> i64 {
        micros(self.lease)
    }

    pub(crate) fn lease_millis(&self) -> i32 {
        millis(self.lease)
    }
}

/// A cursor as PostgreSQL had it last, after a claim that found nothing unusual. As long
/// as it is still that version, nothing of it has changed.
pub(crate) struct Place {
    pub(crate) ctid: String,
    /// The transaction that wrote it.
    pub(crate) version: String,
    pub(crate) processed: i64,
    /// The epoch of our lease, if it is ours.
    pub(crate) lease: Option<i64>,
}

/// Which messages are not claimed although they are next.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuse {
    /// None: no other suspect is at work in this process.
    None = 0,
    /// One that was charged with a death before.
    ChargedSuspect = 1,
    /// One whose claim died before.
    Suspect = 2,
}

pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 2)
}

/// As `lease_ms` keeps it.
pub(crate) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What a claim found.
pub(crate) struct Claimed {
    /// Whether the cursor was free or ours.
    pub(crate) free: bool,
    /// Whether the acknowledgement took effect; false means the lease was lost.
    pub(crate) acked: bool,
    /// After a claim that died: up to where messages go one at a time.
    pub(crate) recovering: Option<i64>,
    /// Microseconds until the next attempt of a message that failed.
    pub(crate) due_in: Option<i64>,
    /// The claim's epoch.
    pub(crate) epoch: i64,
    /// The record of the next message, which is then claimed alone.
    pub(crate) attempts: Option<Attempts>,
    /// Whether it was written by the outermost transaction, as far as the engine
    /// tells: inside a savepoint that somebody left open it could be undone.
    pub(crate) outermost: bool,
    /// Whether there are more messages than their bytes allow.
    pub(crate) cut: bool,
    /// Where the cursor is now, for the next claim.
    pub(crate) place: Option<Place>,
    /// The messages; none if there is nothing to do.
    pub(crate) rows: Vec<RawRow>,
}

impl Claimed {
    pub(crate) fn busy() -> Self {
        Self {
            free: false,
            acked: false,
            recovering: None,
            due_in: None,
            epoch: -1,
            attempts: None,
            outermost: true,
            cut: false,
            place: None,
            rows: Vec::new(),
        }
    }
}

/// A message as the tables have it. Without a body if somebody deleted it.
pub(crate) struct RawRow {
    pub(crate) seq: i64,
    pub(crate) id: i64,
    pub(crate) body: Option<RawBody>,
    /// Whether it is on record as done, although the cursor is behind it.
    pub(crate) done: bool,
}

pub(crate) struct RawBody {
    pub(crate) event_type: String,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Option<String>,
    pub(crate) target: Option<String>,
    pub(crate) enqueued_us: i64,
    pub(crate) nonce: i64,
}

impl RawRow {
    /// Reads id and body from column `at` on.
    pub(crate) fn read(row: &QueryResult, seq: i64, at: usize) -> Result<Self, DbErr> {
        let body = match row.try_get_by_index::<Option<String>>(at + 1)? {
            None => None,
            Some(event_type) => Some(RawBody {
                event_type,
                key: row.try_get_by_index(at + 2)?,
                payload: row.try_get_by_index(at + 3)?,
                headers: text(row, at + 4)?,
                target: text(row, at + 5)?,
                enqueued_us: row.try_get_by_index(at + 6)?,
                nonce: row.try_get_by_index(at + 7)?,
            }),
        };
        Ok(Self {
            seq,
            id: row.try_get_by_index(at)?,
            body,
            done: false,
        })
    }
}

/// A text that is null or empty if there is none.
fn text(row: &QueryResult, at: usize) -> Result<Option<String>, DbErr> {
    let text: Option<String> = row.try_get_by_index(at)?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// Acknowledges, claims and reads.
pub(crate) async fn claim<C: ConnectionTrait + StreamTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    #[cfg(feature = "sabotage")]
    crate::sabotage::seize(conn, request).await?;
    match Dialect::of(conn)? {
        Dialect::Postgres => dialect::claim_at_once(conn, request).await,
        Dialect::MySql | Dialect::Sqlite => claim_in_steps(conn, request).await,
    }
}

/// Reads first, then one UPDATE that acknowledges and claims, provided that the
/// epoch is still the one that was read. The rows are in a subquery with its own
/// limit: joined first and limited afterwards, MariaDB would sort the whole log. An
/// acknowledgement that does not count is found out afterwards: asked in the subquery, MariaDB
/// would read the log from its beginning.
async fn claim_in_steps<C: ConnectionTrait + StreamTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    let ack = request.ack.as_ref();
    let (held_epoch, ack_seq) = ack.map_or((-1, 0), |ack| (ack.epoch, ack.processed));
    let (anchor_seq, anchor_id) = ack.map_or((0, 0), |ack| ack.anchor);
    let (rows, cut) = query_up_to(
        conn,
        "SELECT c.processed_seq, c.claimed_seq, c.lease_epoch, c.lease_owner, \
            {us(c.lease_until)}, {now_us}, a.failures, a.deaths, a.done, {us(a.not_before)}, \
            o.seq, o.id, b.event_type, b.{key}, b.payload, b.headers, b.target, \
            {us(b.enqueued_at)}, b.nonce, CASE WHEN EXISTS (SELECT 1 FROM outbox_outgoing n \
                WHERE n.partition_id = ? AND n.seq = ? AND n.id = ?) THEN 1 ELSE 0 END, \
            LENGTH(b.payload) \
         FROM outbox_cursor c LEFT JOIN ( \
            SELECT g.seq, g.id FROM outbox_outgoing g \
            WHERE g.partition_id = ? AND g.seq > ( \
                SELECT CASE WHEN k.lease_owner = ? AND k.lease_epoch = ? \
                    THEN ? ELSE k.processed_seq END \
                FROM outbox_cursor k JOIN outbox_queue q ON q.id = ? AND NOT q.paused \
                WHERE k.partition_id = ? AND k.consumer = ? AND (k.lease_until IS NULL \
                    OR k.lease_until <= {now} OR k.lease_owner = ?) \
            ) ORDER BY g.seq LIMIT ? \
         ) o ON 1 = 1 \
         LEFT JOIN outbox_body b ON b.id = o.id \
         LEFT JOIN outbox_attempt a ON a.partition_id = c.partition_id \
            AND a.consumer = c.consumer AND a.seq = o.seq \
         WHERE c.partition_id = ? AND c.consumer = ? ORDER BY o.seq",
        [
            request.partition_id.into(),
            anchor_seq.into(),
            anchor_id.into(),
            request.partition_id.into(),
            request.owner.into(),
            held_epoch.into(),
            ack_seq.into(),
            request.partition_id.queue().into(),
            request.partition_id.into(),
            request.consumer.into(),
            request.owner.into(),
            request.limit.into(),
            request.partition_id.into(),
            request.consumer.into(),
        ],
        (20, request.most_bytes),
    )
    .await?;
    let Some(first) = rows.first() else {
        return Ok(Claimed::busy());
    };
    let (read_processed, read_claimed): (i64, i64) =
        (first.try_get_by_index(0)?, first.try_get_by_index(1)?);
    let epoch: i64 = first.try_get_by_index(2)?;
    let owner: Option<String> = first.try_get_by_index(3)?;
    let until: Option<i64> = first.try_get_by_index(4)?;
    let now: i64 = first.try_get_by_index(5)?;
    let ours = owner.as_deref() == Some(request.owner);
    let held = ours && epoch == held_epoch;
    // What was read begins behind the acknowledgement, which does not count.
    let renumbered = held && first.try_get_by_index::<i32>(19)? == 0;
    if renumbered || (!ours && until.is_some_and(|until| until > now)) {
        return Ok(Claimed::busy());
    }
    let (processed, claimed) = match &request.ack {
        Some(ack) if held => (ack.processed, ack.claimed),
        _ => (read_processed, read_claimed),
    };
    let is_done = |row: &QueryResult| {
        let done = row.try_get_by_index::<Option<bool>>(8);
        done.map(|done| done == Some(true))
    };
    let attempts = |row: &QueryResult| -> Result<Option<Attempts>, DbErr> {
        match row.try_get_by_index::<Option<i32>>(6)? {
            Some(failures) if !is_done(row)? => Ok(Some(Attempts {
                failures,
                deaths: row.try_get_by_index(7)?,
            })),
            _ => Ok(None),
        }
    };
    let before = attempts(first)?;
    let due: Option<i64> = first.try_get_by_index(9)?;
    let due_in = before.and(due).map(|due| due - now);
    let mut found = Claimed {
        free: true,
        acked: held,
        recovering: (claimed > processed).then_some(claimed),
        due_in,
        epoch,
        attempts: before,
        outermost: true,
        cut: false,
        place: None,
        rows: Vec::new(),
    };
    let one = before.is_some() || found.recovering.is_some();
    let refused = found.recovering.is_some()
        && match request.refuse {
            Refuse::None => false,
            Refuse::ChargedSuspect => before.is_some_and(|before| before.deaths > 0),
            Refuse::Suspect => true,
        };
    let wanted = request.limit > 0 && !refused && due_in.is_none_or(|due_in| due_in <= 0);
    if wanted {
        for row in rows.iter().take(if one { 1 } else { rows.len() }) {
            if !found.rows.is_empty() && attempts(row)?.is_some() {
                break;
            }
            if let Some(seq) = row.try_get_by_index::<Option<i64>>(10)? {
                let done = is_done(row)?;
                let row = RawRow::read(row, seq, 11)?;
                found.rows.push(RawRow { done, ..row });
            }
        }
    }
    found.cut = cut && found.rows.len() == rows.len();
    let last = found.rows.last().map(|row| row.seq);
    if last.is_none() && !held {
        return Ok(found);
    }
    let set = match last {
        Some(_) => {
            "lease_epoch = lease_epoch + 1, lease_owner = ?, lease_until = {now+?}, \
            lease_ms = ?"
        }
        None => "lease_owner = NULL, lease_until = NULL",
    };
    // Whoever had the lease may have moved on without raising the epoch: what was
    // read must still be so, or the cursor would go back.
    let update = format!(
        "UPDATE outbox_cursor SET processed_seq = ?, claimed_seq = ?, {set} \
         WHERE partition_id = ? AND consumer = ? AND lease_epoch = ? AND processed_seq = ? \
            AND (lease_until IS NULL OR lease_until <= {{now}} OR lease_owner = ?)"
    );
    let mut values = vec![
        processed.into(),
        claimed.max(processed).max(last.unwrap_or(0)).into(),
    ];
    if last.is_some() {
        values.extend([
            request.owner.into(),
            request.lease_micros().into(),
            request.lease_millis().into(),
        ]);
    }
    values.extend([
        request.partition_id.into(),
        request.consumer.into(),
        epoch.into(),
        read_processed.into(),
        request.owner.into(),
    ]);
    if execute(conn, &update, values).await? == 0 {
        return Ok(Claimed::busy());
    }
    if last.is_some() {
        found.epoch = epoch + 1;
    }
    if held && request.ack.as_ref().is_some_and(|ack| ack.forget_attempts) {
        attempts::forget(conn, request.partition_id, request.consumer, processed).await?;
    }
    Ok(found)
}

/// How far a consumer is, as the database knows it.
pub(crate) async fn processed<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
) -> Result<i64, DbErr> {
    let rows = query(
        conn,
        "SELECT processed_seq FROM outbox_cursor WHERE partition_id = ? AND consumer = ?",
        [partition_id.into(), consumer.into()],
    )
    .await?;
    rows.first().map_or(Ok(0), |row| row.try_get_by_index(0))
}

/// Moves the cursor inside the transaction of a handler, keeping the lease.
/// False if the lease was lost: then the transaction must be rolled back.
pub(crate) async fn advance<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    owner: &str,
    epoch: i64,
    processed: i64,
) -> Result<bool, DbErr> {
    let moved = execute(
        conn,
        "UPDATE outbox_cursor SET processed_seq = ? \
         WHERE partition_id = ? AND consumer = ? AND lease_owner = ? AND lease_epoch = ?",
        [
            processed.into(),
            partition_id.into(),
            consumer.into(),
            owner.into(),
            epoch.into(),
        ],
    )
    .await?;
    Ok(moved > 0)
}
