//! A claim: messages that this process may handle until its lease is over.

use super::guard::LeaseClock;
use super::processor::Next;
use crate::database::attempts::Attempts;
use crate::database::cursor::{Ack, Claimed};
use crate::handler::OutboxMessage;
use crate::queue::PartitionId;
use sea_orm::DatabaseTransaction;

/// A claim to work on.
pub(crate) struct Claim {
    pub(crate) partition: u32,
    pub(crate) partition_id: PartitionId,
    pub(crate) epoch: i64,
    pub(crate) clock: LeaseClock,
    /// Up to where messages go one at a time, after a claim that died.
    pub(crate) recovering: Option<i64>,
    /// What is on record of the one message, if it has a record.
    pub(crate) attempts: Attempts,
    /// Whether it is charged with a death that it has not died yet.
    pub(super) charged: bool,
    /// Whether its handler did not return in time.
    pub(super) overran: bool,
    /// Whether there are records of attempts of what it takes.
    pub(super) recorded: bool,
    /// Messages for this consumer.
    pub(crate) messages: Vec<OutboxMessage>,
    /// The last number claimed, passed-over messages included.
    pub(super) last_seq: i64,
    /// The id of that message.
    pub(super) last_id: i64,
}

impl Claim {
    /// The place in the partition once `count` messages are done.
    pub(crate) fn processed_after(&self, count: usize) -> i64 {
        self.messages
            .get(count)
            .map_or(self.last_seq, |next| next.sequence() - 1)
    }

    /// A death is on record for its message.
    pub(super) fn is_charged(&mut self) {
        (self.charged, self.recorded) = (true, true);
    }

    /// The message that is charged with a death.
    pub(super) fn charged_message(&self) -> Option<i64> {
        let first = self.messages.first().filter(|_| self.charged);
        first.map(OutboxMessage::sequence)
    }

    pub(crate) fn ack(&self, count: usize) -> Ack {
        let processed = self.processed_after(count);
        let next = self.messages.get(count);
        Ack {
            epoch: self.epoch,
            processed,
            anchor: next.map_or((self.last_seq, self.last_id), |next| {
                (next.sequence(), next.id().get())
            }),
            claimed: self.recovering.unwrap_or(processed).max(processed),
            forget_attempts: self.recorded,
            charged: self.charged_message().filter(|_| !self.overran),
        }
    }
}

/// What a claim found, since when its lease is trusted, and the transaction for its
/// handlers, where they have one.
pub(crate) struct ClaimAnswer {
    pub(super) claimed: Claimed,
    pub(super) clock: LeaseClock,
    pub(super) tx: Option<DatabaseTransaction>,
}

/// How a claim ended for the turn that made it.
pub(crate) enum ClaimEnd {
    /// All done; to be acknowledged with the next claim.
    Done(Ack),
    /// All done and acknowledged, and this is the next claim.
    Chained(ClaimAnswer),
    /// Settled; the lease is given back.
    Settled(Next),
}
