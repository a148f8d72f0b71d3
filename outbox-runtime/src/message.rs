//! What a message is on its way into a queue: id, options, and the raw form.

pub use crate::headers::{Headers, InvalidHeader};
use crate::key::EventKey;
use std::borrow::Cow;
use std::fmt;
use uuid::Uuid;

/// The largest payload unless an event or a message says otherwise: 64 KiB.
pub const DEFAULT_MAX_PAYLOAD: usize = 64 * 1024;

/// The number of a message: the same at enqueue, in every attempt, and in dead
/// letters. Short, for logs and for people; idempotency keys are made of its
/// [`UniqueId`] instead.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutboxMessageId(i64);

impl OutboxMessageId {
    /// The id as it is in the database.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl From<i64> for OutboxMessageId {
    fn from(id: i64) -> Self {
        Self(id)
    }
}

impl fmt::Display for OutboxMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What tells a message from every other, for ever.
///
/// It is the same in every attempt, in dead letters, and when a dead letter is requeued
/// unchanged. An [`OutboxMessageId`] is a number that the database gives: a failover that loses
/// commits, or a restored backup, may give it to another message. This is drawn at random when
/// the message is enqueued, so no other message has it, whatever history the database lost.
/// Idempotency keys are made of it.
///
/// It is a UUID; the first half is the time, so that a table with such keys grows at its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UniqueId(Uuid);

impl UniqueId {
    pub(crate) fn new() -> Self {
        Self(Uuid::now_v7())
    }

    pub(crate) const fn from_stored(id: Uuid) -> Self {
        Self(id)
    }

    pub(crate) const fn stored(self) -> Uuid {
        self.0
    }

    /// Its 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

/// As a UUID is written: `0191f3a4-5b6c-7d8e-9f01-23456789abcd`.
impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({})", self.0)
    }
}

/// What may be said about a message beside its key.
///
/// ```
/// use outbox_runtime::EnqueueOptions;
///
/// let options = EnqueueOptions::new()
///     .header("tenant", "acme")
///     .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
/// ```
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct EnqueueOptions {
    /// Headers to send with the message.
    pub headers: Headers,
}

impl EnqueueOptions {
    /// Nothing special.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets all headers.
    #[must_use]
    pub fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self
    }

    /// Adds a header, replacing one of the same name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// A message made by hand, for [`enqueue`](crate::enqueue) and
/// [`enqueue_batch`](crate::enqueue_batch): bytes and what they are.
#[derive(Clone)]
pub struct NewMessage {
    pub(crate) event_type: Cow<'static, str>,
    pub(crate) key: Vec<u8>,
    pub(crate) partition: Option<u32>,
    pub(crate) payload: Vec<u8>,
    pub(crate) max_payload: usize,
    pub(crate) options: EnqueueOptions,
}

impl NewMessage {
    /// A message of the given type; its key decides partition and order.
    pub fn new(
        event_type: impl Into<Cow<'static, str>>,
        key: impl EventKey,
        payload: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            event_type: event_type.into(),
            key: key.to_key_bytes(),
            partition: None,
            payload: payload.into(),
            max_payload: DEFAULT_MAX_PAYLOAD,
            options: EnqueueOptions::new(),
        }
    }

    /// Sends it to this partition instead of its key's.
    #[must_use]
    pub fn to_partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Allows a payload of up to `bytes` instead of 64 KiB.
    #[must_use]
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = bytes;
        self
    }

    /// Sets its headers.
    #[must_use]
    pub fn with(mut self, options: EnqueueOptions) -> Self {
        self.options = options;
        self
    }
}

/// Payloads and keys may be secrets: only their sizes are shown.
impl fmt::Debug for NewMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMessage")
            .field("event_type", &self.event_type)
            .field("partition", &self.partition)
            .field("key_bytes", &self.key.len())
            .field("payload_bytes", &self.payload.len())
            .field("headers", &self.options.headers)
            .finish()
    }
}
