//! The cursor of a consumer in a partition: claiming messages, and acknowledging them.
//!
//! Invariants:
//! - Only the process that holds the lease writes progress. Owner *and* epoch must match.
//! - Every claim and every settlement raises the epoch.
//! - `claimed_seq > processed_seq` under a lease that is over means that a claim died. Then messages are
//!   claimed one at a time until that claim is passed, and a death is charged before each handler
//!   runs ([`attempts`](super::attempts)).
//! - A message with a record of attempts is claimed alone too, unless the record says that it is done.
//! - An empty poll writes nothing.
//! - If the cursor names us as owner but we hold no claim, the reply to our claim was lost. We may
//!   claim again at once.

use super::attempts::Attempts;
use super::connection_cache::ConnectionCache;
use super::contract;
use super::statement::{Run, statements, values};
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr, QueryResult, StreamTrait};
use std::time::Duration;

/// What is acknowledged with a claim.
pub(crate) struct Ack {
    /// The claim it belongs to.
    pub(crate) epoch: i64,
    /// Everything up to here is done.
    pub(crate) processed: i64,
    /// Sequence number and id of the last message that is done, or of the next one. A server that
    /// crashed may have lost the claim and the numbering, and may have given epoch and numbers again.
    /// If this message has another number now, the acknowledgement does not count.
    pub(crate) anchor: (i64, i64),
    /// What stays marked as claimed: more than `processed` while recovering.
    pub(crate) claimed: i64,
    /// Whether one of the done messages has a record of attempts.
    pub(crate) forget_attempts: bool,
    /// The message that was charged with a death and whose handler returned.
    pub(crate) charged: Option<i64>,
}

pub(crate) struct ClaimRequest<'a> {
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) lease: Duration,
    pub(crate) limit: u32,
    /// How many bytes of payloads it takes. It ends with the message that reaches this.
    pub(crate) most_bytes: i64,
    pub(crate) ack: Option<Ack>,
    /// The row version of the cursor that we saw last. Some engines find the row sooner by it.
    pub(crate) row_version: Option<&'a RowVersion>,
    /// Suspects of a process's death to leave alone.
    pub(crate) refuse: Refuse,
    /// Whether the commit may be asynchronous: never with a user's writes.
    pub(crate) asynchronous_commit: bool,
}

impl ClaimRequest<'_> {
    pub(crate) fn lease_micros(&self) -> i64 {
        micros(self.lease)
    }

    pub(crate) fn lease_millis(&self) -> i32 {
        millis(self.lease)
    }
}

/// The row version of a cursor on PostgreSQL, after a claim that found nothing unusual. As long as the
/// row has this version, the cursor has not changed.
pub(crate) struct RowVersion {
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

/// A request for a claim in the usual case: the cursor is as we left it, and no message failed.
pub(crate) struct QuickClaim {
    pub(crate) partition_id: PartitionId,
    pub(crate) consumer: String,
    pub(crate) ctid: String,
    pub(crate) version: String,
    /// Everything up to here is done.
    pub(crate) processed: i64,
    /// The claim that this acknowledges, if any.
    pub(crate) epoch: Option<i64>,
    /// The anchor of what it acknowledges: see [`Ack`].
    pub(crate) anchor: (i64, i64),
    pub(crate) limit: u32,
    pub(crate) most_bytes: i64,
    pub(crate) lease_micros: i64,
}

impl QuickClaim {
    /// `None` if something is unusual.
    pub(crate) fn of(request: &ClaimRequest<'_>) -> Option<Self> {
        let row = request.row_version?;
        let processed = match (&request.ack, row.lease) {
            (Some(ack), Some(lease))
                if ack.epoch == lease
                    && ack.claimed == ack.processed
                    && ack.anchor.0 == ack.processed
                    && !ack.forget_attempts =>
            {
                ack.processed
            }
            (None, None) => row.processed,
            _ => return None,
        };
        Some(Self {
            partition_id: request.partition_id,
            consumer: request.consumer.to_owned(),
            ctid: row.ctid.clone(),
            version: row.version.clone(),
            processed,
            epoch: row.lease,
            anchor: request.ack.as_ref().map_or((0, 0), |ack| ack.anchor),
            limit: request.limit,
            most_bytes: request.most_bytes,
            lease_micros: request.lease_micros(),
        })
    }
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
    /// Whether the outermost transaction wrote it, as far as the engine tells. Inside a savepoint that
    /// a handler left open, it could be undone.
    pub(crate) outermost: bool,
    /// Whether there are more messages than their bytes allow.
    pub(crate) cut: bool,
    /// The row version of the cursor now, for the next claim.
    pub(crate) row_version: Option<RowVersion>,
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
            row_version: None,
            rows: Vec::new(),
        }
    }
}

/// A message as the tables have it. It has no body if somebody deleted that.
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

/// Where the columns of a message are in a result: looked up by name once, not for each message.
pub(super) struct MessageColumns {
    id: usize,
    event_type: usize,
    key: usize,
    payload: usize,
    headers: usize,
    target: usize,
    enqueued_us: usize,
    nonce: usize,
}

impl MessageColumns {
    /// Finds `id` and the columns of `{body ..}` in a row of the result.
    pub(super) fn of(row: &QueryResult) -> Result<Self, DbErr> {
        let names = row.column_names();
        let find = |name: &str| {
            let at = names.iter().position(|column| column == name);
            at.ok_or_else(|| DbErr::Type(format!("a message is read without its `{name}`")))
        };
        Ok(Self {
            id: find("id")?,
            event_type: find("event_type")?,
            key: find("key")?,
            payload: find("payload")?,
            headers: find("headers")?,
            target: find("target")?,
            enqueued_us: find("enqueued_us")?,
            nonce: find("nonce")?,
        })
    }

    /// Reads a message.
    pub(super) fn read(&self, row: &QueryResult, seq: i64) -> Result<RawRow, DbErr> {
        let body = match row.try_get_by_index::<Option<String>>(self.event_type)? {
            None => None,
            Some(event_type) => Some(RawBody {
                event_type,
                key: row.try_get_by_index(self.key)?,
                payload: row.try_get_by_index(self.payload)?,
                headers: text(row, self.headers)?,
                target: text(row, self.target)?,
                enqueued_us: row.try_get_by_index(self.enqueued_us)?,
                nonce: row.try_get_by_index(self.nonce)?,
            }),
        };
        Ok(RawRow {
            seq,
            id: row.try_get_by_index(self.id)?,
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

statements! { EVERY;
    PROCESSED = "SELECT processed_seq FROM outbox_cursor \
        WHERE partition_id = $partition AND consumer = $consumer";
    ADVANCE = "UPDATE outbox_cursor SET processed_seq = $processed \
        WHERE partition_id = $partition AND consumer = $consumer \
            AND lease_owner = $owner AND lease_epoch = $epoch";
}

/// Acknowledges, claims and reads.
pub(crate) async fn claim<C: ConnectionTrait + StreamTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    #[cfg(feature = "sabotage")]
    super::sabotage::seize(conn, request).await?;
    contract::claim(conn, request).await
}

/// Whether the engine can claim for many cursors in one statement.
pub(crate) fn can_claim_together(db: &DatabaseConnection) -> bool {
    contract::can_claim_together(db).unwrap_or(false)
}

/// Claims for many cursors in one statement; `None` where it was not the usual case.
pub(crate) async fn claim_together(
    connections: &ConnectionCache,
    requests: &[QuickClaim],
    owner: &str,
    asynchronous_commit: bool,
) -> Result<Vec<Option<Claimed>>, DbErr> {
    contract::claim_together(connections, requests, owner, asynchronous_commit).await
}

/// How far a consumer is, as the database knows it.
pub(crate) async fn processed<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
) -> Result<i64, DbErr> {
    let values = values! { partition: partition_id, consumer: consumer };
    let row = PROCESSED.first(conn, values).await?;
    row.map_or(Ok(0), |row| row.try_get_by("processed_seq"))
}

/// Moves the cursor inside the transaction of a handler, and keeps the lease. False if the lease was
/// lost: then the caller must roll back.
pub(crate) async fn advance<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    owner: &str,
    epoch: i64,
    processed: i64,
) -> Result<bool, DbErr> {
    let values = values! {
        partition: partition_id,
        consumer: consumer,
        owner: owner,
        epoch: epoch,
        processed: processed,
    };
    Ok(ADVANCE.execute(conn, values).await? > 0)
}
