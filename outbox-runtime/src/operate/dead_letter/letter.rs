//! What a dead letter is, and what an operation on some of them says.

use crate::event::message::{Headers, OutboxMessageId};
use crate::event::unique::UniqueId;
use crate::queue::{DeadLetterId, Slot};
use std::fmt;
use std::time::SystemTime;

/// Where a dead letter is in its life.
///
/// ```text
/// Pending ── replay ──> Reprocessing ── resolve ──> Resolved
///    ^  │ │                  │ (until its deadline)    ^
///    │  │ └──── requeue ─────┼─────────────────────────┘
///    │  └────── discard ─────┼───────────────────> Discarded
///    └───────── reject ──────┘
/// ```
///
/// A letter whose deadline has passed can be replayed, requeued and discarded like
/// a pending one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeadLetterStatus {
    /// Nobody is at it.
    Pending,
    /// Claimed by [`replay`](super::DeadLetters::replay).
    Reprocessing,
    /// Done, by hand or by being requeued; the end.
    Resolved,
    /// Given up; the end.
    Discarded,
}

impl DeadLetterStatus {
    /// As the database has it.
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

/// A message that could not succeed, with everything needed to try it again. All
/// times are the database's.
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
    /// Its place in the partition.
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
    /// Where it is in its life.
    pub status: DeadLetterStatus,
    /// While it is being reprocessed: until when.
    pub deadline: Option<SystemTime>,
    /// When it was resolved or discarded.
    pub completed_at: Option<SystemTime>,
    /// The message it was sent again as. That one names this letter's message in
    /// the header [`REQUEUED_FROM`](super::REQUEUED_FROM).
    pub requeued_as: Option<OutboxMessageId>,
    /// The slot of its key, or of the partition that was chosen for it.
    pub slot: Slot,
    /// What tells the message from every other. It keeps it when the letter is requeued
    /// unchanged.
    pub unique_id: UniqueId,
}

/// Keys and payloads may be secrets: they are not shown.
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

/// Whose letters are: given by [`replay`](super::DeadLetters::replay), asked for by
/// [`resolve`](super::DeadLetters::resolve) and [`reject`](super::DeadLetters::reject).
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
    /// Proves that they are yours.
    pub claim: DeadLetterClaim,
    /// The letters, by id; none if there was nothing to claim.
    pub letters: Vec<DeadLetterMessage>,
}

/// What a change of state came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LettersChanged {
    /// How many letters were changed.
    pub changed: u64,
    /// How many were asked for and not changed: they do not exist, are in another
    /// state, or are somebody else's.
    pub unchanged: u64,
}
