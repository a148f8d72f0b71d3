//! A message on its way into a queue: its id, its options, and its raw form.

pub use crate::event::headers::{Headers, InvalidHeader};
use crate::event::key::EventKey;
use std::borrow::Cow;
use std::fmt;

/// The largest payload unless an event or a message says otherwise: 64 KiB.
pub const DEFAULT_MAX_PAYLOAD: usize = 64 * 1024;

/// The number of a message: the same at enqueue, in every attempt, and in dead letters. It is
/// short, for logs and for people. For idempotency keys use its [`UniqueId`](crate::UniqueId)
/// instead.
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

/// Options of a message beside its key.
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
    /// No options.
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
/// [`enqueue_batch`](crate::enqueue_batch): its bytes and their event type.
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
    /// A message of the given type. Its key decides its partition and its order.
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

    /// Sends it to this partition instead of the partition of its key.
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
