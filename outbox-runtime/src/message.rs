//! What a message is on its way into a queue: id, headers, and the raw form.

use crate::key::EventKey;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// The largest payload unless an event or a message says otherwise: 64 KiB.
pub const DEFAULT_MAX_PAYLOAD: usize = 64 * 1024;

/// The name of a message: the same at enqueue, in every attempt, and in dead
/// letters. Idempotency keys are made of it.
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

/// Headers of a message: names and values beside its payload, such as a trace id.
///
/// At most 64 of them. A name is 1 to 128 bytes without control characters, a
/// value at most 4,096 bytes, all of them as JSON at most 16 KiB.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a header, replacing one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the database has. Headers are ours, so what is no map of strings
    /// was put there by somebody else and is left out.
    pub(crate) fn decode(json: &str) -> Self {
        Self(serde_json::from_str(json).unwrap_or_default())
    }

    /// As the database keeps them, whether or not they could be sent.
    pub(crate) fn to_json(&self) -> String {
        serde_json::Value::from_iter(self.iter()).to_string()
    }

    /// As the database keeps them; `None` for no headers.
    pub(crate) fn encode(&self) -> Result<Option<String>, InvalidHeader> {
        if self.is_empty() {
            return Ok(None);
        }
        if self.len() > 64 {
            return Err(InvalidHeader::TooMany { count: self.len() });
        }
        for (name, value) in self.iter() {
            if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
                let name = name.chars().take(129).collect();
                return Err(InvalidHeader::Name { name });
            }
            if value.len() > 4096 {
                return Err(InvalidHeader::Value {
                    name: name.to_owned(),
                    size: value.len(),
                });
            }
        }
        let json = self.to_json();
        if json.len() > 16 * 1024 {
            return Err(InvalidHeader::TooLarge { size: json.len() });
        }
        Ok(Some(json))
    }
}

/// Values may be secrets: only the names are shown.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let headers = headers.into_iter();
        Self(headers.map(|(n, v)| (n.into(), v.into())).collect())
    }
}

/// What is wrong with the headers of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHeader {
    /// A bad name.
    #[error("`{}` cannot name a header: use 1 to 128 bytes without control characters", name.escape_debug())]
    Name {
        /// The name, shortened if it is very long.
        name: String,
    },
    /// A value that is too long.
    #[error("the value of header `{name}` has {size} bytes, the limit is 4096")]
    Value {
        /// The header's name.
        name: String,
        /// The length of its value.
        size: usize,
    },
    /// More than 64 headers.
    #[error("{count} headers, the limit is 64")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// More than 16 KiB in all.
    #[error("the headers have {size} bytes as JSON, the limit is 16384")]
    TooLarge {
        /// Their size.
        size: usize,
    },
}

/// What may be said about a message beside its key.
///
/// ```
/// use outbox_runtime::EnqueueOptions;
///
/// let options = EnqueueOptions::new().header("traceparent", "00-4bf9-01");
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
