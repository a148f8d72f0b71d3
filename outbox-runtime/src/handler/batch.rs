//! The batch of messages that a handler walks through.

use super::OutboxMessage;

/// Messages of one partition, in order, and how far the handler is.
///
/// A handler made by hand sees [`OutboxMessage`]s. A handler made of a function sees what its
/// argument asks for: `Batch<'_, OrderCreated>` or, with their metadata, `Batch<'_,
/// Message<OrderCreated>>`.
///
/// ```
/// # fn ship(_: &outbox_runtime::OutboxMessage) -> Result<(), String> { Ok(()) }
/// # fn walk(batch: &mut outbox_runtime::Batch<'_>) {
/// while let Some(message) = batch.next_msg() {
///     match ship(message) {
///         Ok(()) => batch.ack(),
///         Err(reason) => batch.reject(reason),
///     }
/// }
/// # }
/// ```
pub struct Batch<'a, M = OutboxMessage> {
    messages: Vec<M>,
    /// The index in the claim of the first message.
    base: usize,
    progress: &'a mut Progress,
}

/// How far the messages of a claim are. It outlives a handler that is dropped.
#[derive(Default)]
pub(crate) struct Progress {
    /// How many messages were handed out.
    shown: usize,
    /// How many messages are settled. Never more than `shown`, so acknowledging too much does
    /// nothing.
    settled: usize,
    rejected: Vec<(usize, String)>,
    /// How many messages the last handler got as a whole. If there were several, its failure does
    /// not say which message failed.
    undivided: usize,
}

impl Progress {
    /// Whether a failure may come from any of several messages.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.undivided > 1
    }

    pub(crate) fn settled(&self) -> usize {
        self.settled
    }

    pub(crate) fn take_rejected(&mut self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.rejected)
    }

    /// Forgets the first rejection and everything after it. In a transaction the rejected message
    /// must not be there when the messages before it take effect.
    pub(crate) fn back_to_rejected(&mut self) -> Option<String> {
        let (index, reason) = self.take_rejected().into_iter().next()?;
        self.back_to(index);
        Some(reason)
    }

    /// Forgets everything that is settled beyond the first `settled` messages.
    pub(crate) fn back_to(&mut self, settled: usize) {
        self.settled = settled.min(self.settled);
        self.rejected.retain(|(index, _)| *index < settled);
    }

    /// The next batch for a handler. Messages that the handler before took and did not settle are
    /// in it again.
    pub(crate) fn batch<M>(&mut self, messages: Vec<M>) -> Batch<'_, M> {
        self.shown = self.settled;
        self.undivided = 0;
        Batch {
            messages,
            base: self.settled,
            progress: self,
        }
    }
}

impl<M> Batch<'_, M> {
    /// The batch at the same position, with the messages in another form.
    pub(crate) fn of<N>(&mut self, messages: Vec<N>) -> Batch<'_, N> {
        self.progress.batch(messages)
    }

    /// Hands out all messages at once.
    #[doc(hidden)]
    pub fn take_all(&mut self) -> Vec<M> {
        let messages = std::mem::take(&mut self.messages);
        self.progress.shown = self.base + messages.len();
        self.progress.undivided = messages.len();
        messages
    }

    /// The messages, whether they were handed out or not.
    pub(crate) fn messages(&self) -> &[M] {
        &self.messages
    }

    /// The next message, `None` at the end.
    pub fn next_msg(&mut self) -> Option<&M> {
        let message = self.messages.get(self.progress.shown - self.base)?;
        self.progress.shown += 1;
        Some(message)
    }

    /// The next `n` messages, fewer at the end.
    pub fn next_chunk(&mut self, n: usize) -> &[M] {
        let start = self.progress.shown - self.base;
        let end = start.saturating_add(n).min(self.messages.len());
        self.progress.shown = self.base + end;
        &self.messages[start..end]
    }

    /// Acknowledges the oldest message that was handed out and is not settled.
    pub fn ack(&mut self) {
        self.ack_chunk(1);
    }

    /// Acknowledges the `n` oldest messages that were handed out and are not settled. If there are
    /// fewer, it acknowledges those.
    pub fn ack_chunk(&mut self, n: usize) {
        let progress = &mut *self.progress;
        progress.settled = progress.settled.saturating_add(n).min(progress.shown);
    }

    /// Makes a dead letter of the oldest message that was handed out and is not settled.
    pub fn reject(&mut self, reason: impl Into<String>) {
        let progress = &mut *self.progress;
        if progress.settled < progress.shown {
            progress.rejected.push((progress.settled, reason.into()));
            progress.settled += 1;
        }
    }

    /// How many messages have not been handed out yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.messages.len() - (self.progress.shown - self.base)
    }

    /// How many messages are settled.
    #[must_use]
    pub fn processed(&self) -> usize {
        self.progress.settled - self.base
    }

    /// How many messages the batch has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether the batch has no messages. A handler never sees such a batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Acknowledges everything that was handed out.
    pub(crate) fn ack_shown(&mut self) {
        self.progress.settled = self.progress.shown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledging_too_much_counts_only_what_was_handed_out() {
        let mut progress = Progress::default();
        let mut batch = progress.batch(vec!['a', 'b', 'c', 'd', 'e']);
        batch.ack();
        assert_eq!(batch.processed(), 0);
        assert_eq!(batch.next_chunk(3), ['a', 'b', 'c']);
        batch.ack_chunk(usize::MAX);
        assert_eq!((batch.processed(), batch.remaining()), (3, 2));
        assert_eq!(batch.next_chunk(usize::MAX), ['d', 'e']);
        batch.reject("no");
        batch.ack();
        batch.reject("nothing left");
        assert_eq!((batch.processed(), batch.len()), (5, 5));
        assert!(batch.next_msg().is_none());
        assert_eq!(progress.take_rejected(), [(3, "no".to_owned())]);
    }

    #[test]
    fn the_next_batch_begins_with_what_was_not_settled() {
        let mut progress = Progress::default();
        let mut batch = progress.batch(vec!['a', 'b', 'c']);
        batch.next_chunk(2);
        batch.ack();
        let mut batch = progress.batch(vec!['b', 'c']);
        assert_eq!((batch.processed(), batch.remaining()), (0, 2));
        assert_eq!(batch.next_msg(), Some(&'b'));
        batch.reject("no");
        assert_eq!(batch.of(vec![3]).next_msg(), Some(&3));
        assert_eq!(progress.back_to_rejected().as_deref(), Some("no"));
        assert_eq!(progress.settled(), 1);
    }
}
