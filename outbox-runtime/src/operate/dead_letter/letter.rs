//! What a dead letter is, and the results of operations on dead letters.

use crate::database::dead_letter::LetterRow;
use crate::event::message::{Headers, OutboxMessageId};
use crate::event::unique::UniqueId;
use crate::queue::{DeadLetterId, Slot};
use sea_orm::DbErr;
use std::fmt;
use std::time::{Duration, SystemTime};

/// The state of a dead letter.
///
/// ```text
/// Pending ── replay ──> Reprocessing ── resolve ──> Resolved
///    ^  │ │                  │ (until its deadline)    ^
///    │  │ └──── requeue ─────┼─────────────────────────┘
///    │  └────── discard ─────┼───────────────────> Discarded
///    └───────── reject ──────┘
/// ```
///
/// A letter whose deadline has passed can be replayed, requeued and discarded like a pending one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeadLetterStatus {
    /// No claim holds it.
    Pending,
    /// Claimed by [`replay`](super::DeadLetters::replay).
    Reprocessing,
    /// Done, by hand or because it was requeued. This is final.
    Resolved,
    /// Given up. This is final.
    Discarded,
}

impl DeadLetterStatus {
    /// The name of the state in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Reprocessing => "reprocessing",
            Self::Resolved => "resolved",
            Self::Discarded => "discarded",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Reprocessing,
            Self::Resolved,
            Self::Discarded,
        ];
        all.into_iter().find(|status| status.as_str() == text)
    }
}

impl fmt::Display for DeadLetterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that could not succeed, with everything that is needed to try it again. All times are
/// the database's.
#[derive(Clone)]
#[non_exhaustive]
pub struct DeadLetterMessage {
    /// The letter's id; later letters have higher ones.
    pub id: DeadLetterId,
    /// The queue it was in.
    pub queue: String,
    /// The partition it was in.
    pub partition: u32,
    /// The consumer that failed.
    pub consumer: String,
    /// Its sequence number in the partition.
    pub sequence: i64,
    /// The id that `enqueue` returned.
    pub message_id: OutboxMessageId,
    /// Its event type.
    pub event_type: String,
    /// The bytes of its key.
    pub key: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its headers.
    pub headers: Headers,
    /// When it was enqueued.
    pub enqueued_at: SystemTime,
    /// When it failed the last time.
    pub failed_at: SystemTime,
    /// How many attempts failed.
    pub attempts: u32,
    /// Why the last one failed.
    pub reason: String,
    /// Its state.
    pub status: DeadLetterStatus,
    /// The end of the claim, while it is being reprocessed.
    pub deadline: Option<SystemTime>,
    /// When it was resolved or discarded.
    pub completed_at: Option<SystemTime>,
    /// The new message, if the letter was requeued. The new message names this letter's message in
    /// the header [`REQUEUED_FROM`](super::REQUEUED_FROM).
    pub requeued_as: Option<OutboxMessageId>,
    /// The slot of its key, or of the partition that was chosen for it.
    pub slot: Slot,
    /// The id that tells the message from every other message. The message keeps it when the letter
    /// is requeued unchanged.
    pub unique_id: UniqueId,
}

/// Keys and payloads may be secrets, so they are not shown.
impl fmt::Debug for DeadLetterMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterMessage")
            .field("id", &self.id.get())
            .field("queue", &self.queue)
            .field("partition", &self.partition)
            .field("consumer", &self.consumer)
            .field("message_id", &self.message_id.get())
            .field("event_type", &self.event_type)
            .field("headers", &self.headers)
            .field("attempts", &self.attempts)
            .field("reason", &self.reason)
            .field("status", &self.status)
            .field("requeued_as", &self.requeued_as)
            .finish_non_exhaustive()
    }
}

/// A claim of dead letters. [`replay`](super::DeadLetters::replay) returns it,
/// [`resolve`](super::DeadLetters::resolve) and [`reject`](super::DeadLetters::reject) ask for it.
/// It is a text, so that a tool can keep it between two commands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DeadLetterClaim(String);

impl DeadLetterClaim {
    pub(crate) fn new() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// As a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for DeadLetterClaim {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// What [`replay`](super::DeadLetters::replay) claimed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClaimedLetters {
    /// The claim, which proves that the caller holds the letters.
    pub claim: DeadLetterClaim,
    /// The letters, by id. Empty if there was nothing to claim.
    pub letters: Vec<DeadLetterMessage>,
}

/// The result of a change of state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LettersChanged {
    /// How many letters were changed.
    pub changed: u64,
    /// How many letters were requested and not changed: they do not exist, are in another state, or
    /// are held by another claim.
    pub unchanged: u64,
}

impl DeadLetterMessage {
    /// A letter as the database has it.
    pub(super) fn of(row: LetterRow) -> Result<Self, DbErr> {
        let headers = row.headers.map(|json| Headers::decode(&json));
        let headers = headers.unwrap_or_default();
        let (id, status) = (row.id, &row.status);
        let unknown = || DbErr::Type(format!("dead letter {id} has the status `{status}`"));
        Ok(Self {
            id: id.into(),
            queue: row.queue,
            partition: row.partition,
            consumer: row.consumer,
            sequence: row.seq,
            message_id: row.message_id.into(),
            event_type: row.event_type,
            key: row.key,
            payload: row.payload,
            enqueued_at: time(row.enqueued_us),
            failed_at: time(row.failed_us),
            attempts: row.attempts,
            reason: row.reason,
            status: DeadLetterStatus::parse(status).ok_or_else(unknown)?,
            deadline: row.deadline_us.map(time),
            completed_at: row.completed_us.map(time),
            requeued_as: row.requeued_as.map(Into::into),
            slot: row.slot,
            unique_id: UniqueId::of(row.message_id, row.nonce, &headers),
            headers,
        })
    }

    /// Letters as the database has them.
    pub(super) fn all(rows: Vec<LetterRow>) -> Result<Vec<Self>, DbErr> {
        rows.into_iter().map(Self::of).collect()
    }
}

fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(micros.unsigned_abs())
}
