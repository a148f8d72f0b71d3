//! Selects dead letters.

use super::letter::{DeadLetterMessage, DeadLetterStatus};
use crate::database::dead_letter::LetterFilter;
use crate::event::key::EventKey;
use crate::queue::DeadLetterId;
use std::fmt;
use std::time::{Duration, SystemTime};

/// Selects dead letters: those that fulfil every condition. A filter without conditions selects
/// all.
///
/// ```
/// use outbox_runtime::{DeadLetterFilter, DeadLetterStatus};
///
/// let filter = DeadLetterFilter::new()
///     .queue("orders")
///     .status(DeadLetterStatus::Pending)
///     .reason_contains("warehouse")
///     .limit(50);
/// ```
#[derive(Clone, Default)]
pub struct DeadLetterFilter {
    pub(crate) queue: Option<String>,
    pub(crate) consumer: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) status: Option<DeadLetterStatus>,
    pub(crate) failed_after: Option<SystemTime>,
    pub(crate) failed_before: Option<SystemTime>,
    pub(crate) reason_contains: Option<String>,
    pub(crate) limit: Option<u32>,
    pub(crate) after: Option<DeadLetterId>,
    /// The queue of a typed view, and the present and earlier names of its event.
    pub(crate) typed: Option<(String, Vec<&'static str>)>,
}

impl DeadLetterFilter {
    /// All dead letters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of a queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Those of a consumer, in whatever queue.
    #[must_use]
    pub fn consumer(mut self, consumer: impl Into<String>) -> Self {
        self.consumer = Some(consumer.into());
        self
    }

    /// Those of an event type.
    #[must_use]
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = Some(event_type.into());
        self
    }

    /// Those of a key.
    #[must_use]
    pub fn key(mut self, key: impl EventKey) -> Self {
        self.key = Some(key.to_key_bytes());
        self
    }

    /// Those in a state.
    #[must_use]
    pub fn status(mut self, status: DeadLetterStatus) -> Self {
        self.status = Some(status);
        self
    }

    /// Those that failed at this time, by the database's clock, or later.
    #[must_use]
    pub fn failed_after(mut self, time: SystemTime) -> Self {
        self.failed_after = Some(time);
        self
    }

    /// Those that failed before this time, by the database's clock.
    #[must_use]
    pub fn failed_before(mut self, time: SystemTime) -> Self {
        self.failed_before = Some(time);
        self
    }

    /// Those whose reason has this text in it; upper and lower case differ.
    #[must_use]
    pub fn reason_contains(mut self, text: impl Into<String>) -> Self {
        self.reason_contains = Some(text.into());
        self
    }

    /// At most so many. Without it [`list`](super::DeadLetters::list) shows 100 and
    /// [`replay`](super::DeadLetters::replay) claims 100. Operations that change letters work on
    /// all of them, a part at a time.
    #[must_use]
    pub fn limit(mut self, letters: u32) -> Self {
        self.limit = Some(letters);
        self
    }

    /// Those after this letter in the order of ids: the next page.
    #[must_use]
    pub fn after(mut self, last: DeadLetterId) -> Self {
        self.after = Some(last);
        self
    }
}

/// Keys may be secrets, so only the size is shown.
impl fmt::Debug for DeadLetterFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterFilter")
            .field("queue", &self.queue)
            .field("consumer", &self.consumer)
            .field("event_type", &self.event_type)
            .field("key_bytes", &self.key.as_ref().map(Vec::len))
            .field("status", &self.status)
            .field("failed_after", &self.failed_after)
            .field("failed_before", &self.failed_before)
            .field("reason_contains", &self.reason_contains)
            .field("limit", &self.limit)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

/// The letters that an operation acts on: letters by their ids, or all letters that a filter
/// selects and that are in a state for the operation. A filter, an id, several ids or a letter can
/// be given instead of a scope.
#[derive(Clone, Debug)]
pub struct DeadLetterScope {
    pub(crate) filter: DeadLetterFilter,
    /// The requested ids, in order and each once.
    pub(crate) ids: Option<Vec<i64>>,
}

impl DeadLetterScope {
    /// These letters.
    pub fn letters(ids: impl IntoIterator<Item = DeadLetterId>) -> Self {
        let mut ids: Vec<i64> = ids.into_iter().map(DeadLetterId::get).collect();
        ids.sort_unstable();
        ids.dedup();
        Self {
            filter: DeadLetterFilter::new(),
            ids: Some(ids),
        }
    }

    /// The letters that a filter selects, up to its limit.
    #[must_use]
    pub fn matching(filter: DeadLetterFilter) -> Self {
        Self { filter, ids: None }
    }
}

impl From<DeadLetterFilter> for DeadLetterScope {
    fn from(filter: DeadLetterFilter) -> Self {
        Self::matching(filter)
    }
}

impl From<DeadLetterId> for DeadLetterScope {
    fn from(id: DeadLetterId) -> Self {
        Self::letters([id])
    }
}

impl From<Vec<DeadLetterId>> for DeadLetterScope {
    fn from(ids: Vec<DeadLetterId>) -> Self {
        Self::letters(ids)
    }
}

impl<const N: usize> From<[DeadLetterId; N]> for DeadLetterScope {
    fn from(ids: [DeadLetterId; N]) -> Self {
        Self::letters(ids)
    }
}

impl From<&DeadLetterMessage> for DeadLetterScope {
    fn from(letter: &DeadLetterMessage) -> Self {
        Self::letters([letter.id])
    }
}

impl DeadLetterFilter {
    /// What it says, but for its limit and where it begins.
    pub(super) fn conditions(&self) -> LetterFilter<'_> {
        LetterFilter {
            ids: None,
            queue: self.queue.as_deref(),
            consumer: self.consumer.as_deref(),
            event_type: self.event_type.as_deref(),
            types_of_queue: self
                .typed
                .as_ref()
                .map(|(queue, names)| (&**queue, &**names)),
            key: self.key.as_deref(),
            status: self.status.map(DeadLetterStatus::as_str),
            failed_after_us: self.failed_after.map(micros_since_1970),
            failed_before_us: self.failed_before.map(micros_since_1970),
            reason_contains: self.reason_contains.as_deref(),
        }
    }
}

impl DeadLetterScope {
    /// What it says, but for its limit and where it begins.
    pub(super) fn conditions(&self) -> LetterFilter<'_> {
        LetterFilter {
            ids: self.ids.as_deref(),
            ..self.filter.conditions()
        }
    }
}

fn micros_since_1970(time: SystemTime) -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_far_away_are_no_overflow() {
        let year = Duration::from_secs(365 * 24 * 3600);
        assert_eq!(micros_since_1970(SystemTime::UNIX_EPOCH), 0);
        let before = SystemTime::UNIX_EPOCH - Duration::from_micros(7);
        assert_eq!(micros_since_1970(before), -7);
        let far = SystemTime::UNIX_EPOCH.checked_add(year * 1_000_000);
        assert_eq!(far.map(micros_since_1970), Some(i64::MAX));
    }
}
