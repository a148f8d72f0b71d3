//! Why an event was not enqueued.

use crate::event::message::InvalidHeader;
use crate::queue::name::InvalidName;
use sea_orm::DbErr;
use std::fmt;

/// An event was not enqueued. The error says which event, to which queue, and why.
///
/// Bad input is found before anything is written. After [`EnqueueErrorKind::Database`] roll the
/// transaction back.
#[derive(thiserror::Error)]
#[error(
    "cannot enqueue `{event}`{} to queue `{queue}`: {kind}",
    index.map(|i| format!(" (number {i} of the list, from 0)")).unwrap_or_default()
)]
pub struct EnqueueError {
    queue: String,
    event: String,
    index: Option<usize>,
    // The text of the kind is part of ours. The source chain goes on with the kind's own cause.
    kind: EnqueueErrorKind,
    source: Option<Cause>,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason of an [`EnqueueError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueErrorKind {
    /// The payload is larger than the event allows.
    #[error("its payload has {size} bytes, the limit is {limit} (see `max_payload`)")]
    PayloadTooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The key has too many bytes.
    #[error("its key has {size} bytes, the limit is {limit}")]
    KeyTooLong {
        /// Its size.
        size: usize,
        /// The limit, [`MAX_KEY_LEN`](crate::MAX_KEY_LEN).
        limit: usize,
    },
    /// A header cannot be sent.
    #[error(transparent)]
    InvalidHeader(InvalidHeader),
    /// The event type is not a name.
    #[error(transparent)]
    InvalidName(InvalidName),
    /// The queue has no such partition.
    #[error("there is no partition {partition}, the queue has {partitions}, counted from 0")]
    PartitionOutOfRange {
        /// The partition asked for.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The event could not be written as JSON; the cause is the source.
    #[error("it cannot be written as JSON")]
    Encode,
    /// The database refused; the cause is the source.
    #[error("the database refused it")]
    Database,
}

impl EnqueueError {
    pub(crate) fn new(queue: &str, event: &str, kind: EnqueueErrorKind) -> Self {
        Self {
            queue: queue.to_owned(),
            event: event.to_owned(),
            index: None,
            kind,
            source: None,
        }
    }

    pub(crate) fn encode(queue: &str, event: &str, source: serde_json::Error) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::new(queue, event, EnqueueErrorKind::Encode)
        }
    }

    pub(crate) fn database(queue: &str, event: &str, source: DbErr) -> Self {
        Self {
            source: Some(source.into()),
            ..Self::new(queue, event, EnqueueErrorKind::Database)
        }
    }

    pub(crate) fn at(mut self, index: usize) -> Self {
        self.index = Some(index);
        self
    }

    /// The reason.
    #[must_use]
    pub fn kind(&self) -> &EnqueueErrorKind {
        &self.kind
    }

    /// The queue.
    #[must_use]
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The event's type name.
    #[must_use]
    pub fn event(&self) -> &str {
        &self.event
    }

    /// Which item of a list was at fault, counted from 0.
    #[must_use]
    pub fn index(&self) -> Option<usize> {
        self.index
    }
}

/// The cause is shown as it is displayed. The `Debug` output of the database's error may quote the
/// row that it refused, and with it key and payload.
impl fmt::Debug for EnqueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnqueueError")
            .field("queue", &self.queue)
            .field("event", &self.event)
            .field("index", &self.index)
            .field("kind", &self.kind)
            .field("source", &self.source.as_ref().map(ToString::to_string))
            .finish()
    }
}

/// Lets `?` work in functions that return sea-orm's error, such as the closure of a `transaction`.
impl From<EnqueueError> for DbErr {
    fn from(error: EnqueueError) -> Self {
        let cause = error.source.as_ref().map(|cause| format!(": {cause}"));
        Self::Custom(format!("{error}{}", cause.unwrap_or_default()))
    }
}
