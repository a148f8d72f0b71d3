//! A claim: messages that this process may handle until its lease is over.

use super::guard::LeaseClock;
use super::processor::Next;
use super::quarantine::Charge;
use crate::database::attempts::Attempts;
use crate::database::cursor::{Ack, Claimed};
use crate::handler::OutboxMessage;
use crate::queue::PartitionId;
use sea_orm::DatabaseTransaction;

/// What the database answered to a claim.
pub(crate) struct ClaimAnswer {
    pub(super) claimed: Claimed,
    /// Since when the lease is trusted.
    pub(super) clock: LeaseClock,
    /// The transaction for the handlers, where they have one.
    pub(super) tx: Option<DatabaseTransaction>,
}

/// A claim to work on.
pub(crate) struct Claim {
    pub(crate) partition: u32,
    pub(crate) partition_id: PartitionId,
    pub(crate) epoch: i64,
    pub(crate) clock: LeaseClock,
    /// After a claim that died: up to where messages are suspects, and are claimed one at a time.
    pub(crate) recovering: Option<i64>,
    /// What is on record of the one message, if it has a record.
    pub(crate) attempts: Attempts,
    /// The death that its message is charged with, if it is a suspect.
    pub(super) charge: Option<Charge>,
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

    /// The number of the attempt under way, of a message that is claimed alone.
    pub(super) fn attempt(&self) -> i32 {
        self.attempts.total().saturating_add(1)
    }

    /// Remembers whether the handler did not return in time.
    pub(super) fn set_overran(&mut self, overran: bool) {
        if let Some(charge) = &mut self.charge {
            charge.set_overran(overran);
        }
    }

    /// Acknowledges the first `count` messages.
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
            charged: self.charge.and_then(Charge::taken_back_without_lease),
        }
    }
}

/// How a claim ended, for the turn that made it.
pub(crate) enum ClaimEnd {
    /// Every message is done. The next claim acknowledges them.
    Done(Ack),
    /// Every message is done and acknowledged, and this is the next claim.
    Chained(ClaimAnswer),
    /// It is settled: what happened is written down, and the lease is given back.
    Settled(Next),
}
