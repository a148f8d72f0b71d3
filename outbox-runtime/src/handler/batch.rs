//! A batch as a leased handler walks through it.

use super::OutboxMessage;

/// Messages of one partition, in order, and how far the handler is.
///
/// ```
/// # fn ship(_: &outbox_runtime::OutboxMessage) -> Result<(), String> { Ok(()) }
/// # fn walk(batch: &mut outbox_runtime::Batch) {
/// while let Some(message) = batch.next_msg() {
///     match ship(message) {
///         Ok(()) => batch.ack(),
///         Err(reason) => batch.reject(reason),
///     }
/// }
/// # }
/// ```
pub struct Batch {
    messages: Vec<OutboxMessage>,
    /// What was handed out.
    shown: usize,
    /// What is settled; never beyond `shown`, so acknowledging too much does nothing.
    settled: usize,
    rejected: Vec<(usize, String)>,
}

impl Batch {
    pub(crate) fn new(messages: Vec<OutboxMessage>) -> Self {
        Self {
            messages,
            shown: 0,
            settled: 0,
            rejected: Vec::new(),
        }
    }

    /// The next message, `None` at the end.
    pub fn next_msg(&mut self) -> Option<&OutboxMessage> {
        let message = self.messages.get(self.shown)?;
        self.shown += 1;
        Some(message)
    }

    /// The next `n` messages, fewer at the end.
    pub fn next_chunk(&mut self, n: usize) -> &[OutboxMessage] {
        let start = self.shown;
        self.shown = start.saturating_add(n).min(self.messages.len());
        &self.messages[start..self.shown]
    }

    /// Acknowledges the oldest message that was handed out and is not settled.
    pub fn ack(&mut self) {
        self.ack_chunk(1);
    }

    /// Acknowledges the `n` oldest messages that were handed out and are not
    /// settled. More than there are are not counted.
    pub fn ack_chunk(&mut self, n: usize) {
        self.settled = self.settled.saturating_add(n).min(self.shown);
    }

    /// Sends the oldest message that was handed out and is not settled to the
    /// dead letters.
    pub fn reject(&mut self, reason: impl Into<String>) {
        if self.settled < self.shown {
            self.rejected.push((self.settled, reason.into()));
            self.settled += 1;
        }
    }

    /// How many messages have not been handed out yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.messages.len() - self.shown
    }

    /// How many messages are settled.
    #[must_use]
    pub fn processed(&self) -> usize {
        self.settled
    }

    /// How many messages the batch has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether it has none; a handler never sees such a batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Acknowledges everything that was handed out.
    pub(crate) fn ack_shown(&mut self) {
        self.settled = self.shown;
    }

    pub(crate) fn take_rejected(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(len: usize) -> Batch {
        Batch::new((0..len).map(|_| OutboxMessage::for_tests()).collect())
    }

    #[test]
    fn acknowledging_too_much_counts_only_what_was_handed_out() {
        let mut batch = batch(5);
        batch.ack();
        assert_eq!(batch.processed(), 0);
        assert_eq!(batch.next_chunk(3).len(), 3);
        batch.ack_chunk(usize::MAX);
        assert_eq!((batch.processed(), batch.remaining()), (3, 2));
        assert_eq!(batch.next_chunk(usize::MAX).len(), 2);
        batch.reject("no");
        batch.ack();
        batch.reject("nothing left");
        assert_eq!((batch.processed(), batch.len()), (5, 5));
        assert_eq!(batch.take_rejected(), [(3, "no".to_owned())]);
        assert!(batch.next_msg().is_none());
    }
}
