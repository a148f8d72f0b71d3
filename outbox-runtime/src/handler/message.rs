//! The message that a handler gets.

use crate::database::cursor::{RawBody, RawRow};
use crate::event::message::{Headers, OutboxMessageId};
use crate::event::unique::UniqueId;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A message as a handler sees it.
#[derive(Clone)]
pub struct OutboxMessage {
    queue: Arc<str>,
    partition: u32,
    seq: i64,
    id: OutboxMessageId,
    body: Arc<Body>,
    attempts: u32,
}

struct Body {
    event_type: String,
    key: Vec<u8>,
    payload: Vec<u8>,
    headers: Headers,
    enqueued_at: SystemTime,
    unique_id: UniqueId,
}

impl OutboxMessage {
    pub(crate) fn new(
        queue: &Arc<str>,
        partition: u32,
        row: &RawRow,
        body: RawBody,
        attempts: u32,
    ) -> Self {
        let headers = body.headers.map(|json| Headers::decode(&json));
        let headers = headers.unwrap_or_default();
        let since_1970 = Duration::from_micros(body.enqueued_us.unsigned_abs());
        Self {
            queue: queue.clone(),
            partition,
            seq: row.seq,
            id: row.id.into(),
            attempts,
            body: Arc::new(Body {
                event_type: body.event_type,
                key: body.key,
                payload: body.payload,
                enqueued_at: SystemTime::UNIX_EPOCH + since_1970,
                unique_id: UniqueId::of(row.id, body.nonce, &headers),
                headers,
            }),
        }
    }

    /// The same message in another attempt.
    pub(crate) fn with_attempts(&self, attempts: u32) -> Self {
        Self {
            attempts,
            ..self.clone()
        }
    }

    /// The id that tells this message from every other message, for ever. It is the same in every
    /// attempt, and when a dead letter is requeued unchanged. Make idempotency keys of it.
    #[must_use]
    pub fn unique_id(&self) -> UniqueId {
        self.body.unique_id
    }

    /// The id that `enqueue` returned, the same in every attempt. After the database lost commits
    /// or was restored, another message may have this id: see [`unique_id`](Self::unique_id).
    #[must_use]
    pub fn id(&self) -> OutboxMessageId {
        self.id
    }

    /// The queue's name.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The partition's number.
    #[must_use]
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// Its sequence number in the partition. It does not identify the message: after a crash of the
    /// database server a message may get another number.
    #[must_use]
    pub fn sequence(&self) -> i64 {
        self.seq
    }

    /// The event type.
    #[must_use]
    pub fn event_type(&self) -> &str {
        &self.body.event_type
    }

    /// The bytes of its key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.body.key
    }

    /// Its payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.body.payload
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.body.headers
    }

    /// When it was enqueued, by the database's clock.
    #[must_use]
    pub fn enqueued_at(&self) -> SystemTime {
        self.body.enqueued_at
    }

    /// How many attempts failed before this one.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// Keys and payloads may be secrets: they are not shown.
impl fmt::Debug for OutboxMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxMessage")
            .field("queue", &self.queue)
            .field("partition", &self.partition)
            .field("sequence", &self.seq)
            .field("id", &self.id.get())
            .field("event_type", &self.body.event_type)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}
