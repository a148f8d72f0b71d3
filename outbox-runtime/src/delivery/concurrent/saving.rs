//! Writing down what a session has done. Each write renews the lease, or gives it back.

use super::{SAVE_AFTER, Session};
use crate::database::attempts::AttemptNote;
use crate::database::read_ahead::Held;
use crate::database::settlement::{Burial, Settlement};
use crate::delivery::guard::LeaseClock;
use crate::delivery::settlement::{self, SettlementEnd};
use crate::handler::OutboxMessage;
use sea_orm::DbErr;
use std::time::Instant;

/// The cursor as the database has it.
pub(super) struct WrittenCursor {
    /// Up to here everything is done.
    pub(super) processed: i64,
    pub(super) written_at: Instant,
    /// Up to here the cursor says that messages are claimed.
    pub(super) claimed: i64,
    /// Whether there may be records of attempts.
    pub(super) recorded: bool,
}

impl WrittenCursor {
    pub(super) fn new(held: &Held) -> Self {
        Self {
            processed: held.processed,
            written_at: Instant::now(),
            claimed: held.claimed,
            recorded: false,
        }
    }
}

/// What the database does not know yet, beside the cursor's progress.
#[derive(Default)]
pub(super) struct Unwritten {
    pub(super) attempts: Vec<AttemptNote>,
    pub(super) burials: Vec<Burial>,
    /// The messages of the burials.
    pub(super) buried: Vec<OutboxMessage>,
    /// Messages with a record that are done.
    pub(super) done: Vec<i64>,
}

impl Unwritten {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.burials.is_empty() && self.done.is_empty()
    }

    /// What could not be written comes before what came since.
    fn put_back(&mut self, older: Self) {
        self.attempts.splice(..0, older.attempts);
        self.burials.splice(..0, older.burials);
        self.buried.splice(..0, older.buried);
        self.done.splice(..0, older.done);
    }
}

impl<'a> Session<'a> {
    /// Whether there is something that should be written now.
    pub(super) fn must_save(&mut self) -> bool {
        let claimed = self.window.lanes.last() > self.cursor.claimed;
        let renew = Instant::now() >= self.lease.clock.renew_at();
        let progress = self.window.lanes.processed() > self.cursor.processed
            && (self.tasks.is_empty() || self.cursor.written_at.elapsed() > SAVE_AFTER);
        !self.unwritten.is_empty() || claimed || renew || progress
    }

    /// Writes progress and notes, and renews the lease or gives it back. False if
    /// it was lost.
    pub(super) async fn save(&mut self, give_back: bool) -> Result<bool, DbErr> {
        let clock = LeaseClock::start(self.consumer.lease);
        if give_back && let Some(seq) = self.quarantine.take_unstarted() {
            self.take_back_charge(seq);
        }
        let mut notes = std::mem::take(&mut self.unwritten);
        let outcome = self.settlement(give_back, &mut notes);
        let end = settlement::write(
            self.consumer,
            &notes.buried,
            self.lease.clock,
            &outcome,
            None,
        )
        .await;
        let may_be_done = match &end {
            Ok(SettlementEnd::Written) => {
                self.saved(&outcome, clock);
                return Ok(true);
            }
            Ok(SettlementEnd::LeaseLost) => false,
            Ok(SettlementEnd::Unknown) => true,
            Err(unwritten) => unwritten.may_be_done,
        };
        if may_be_done {
            self.quarantine.may_be_written(&outcome.notes);
        }
        (notes.attempts, notes.burials) = (outcome.notes, outcome.burials);
        self.unwritten.put_back(notes);
        end.map(|_| false).map_err(|unwritten| unwritten.error)
    }

    /// What is to be written. Takes attempts and burials out of `notes`.
    fn settlement(&mut self, give_back: bool, notes: &mut Unwritten) -> Settlement<'a> {
        let consumer = self.consumer;
        let processed = self.window.lanes.processed();
        let done_beyond = match give_back {
            true => self.window.lanes.done_beyond(),
            false => notes.done.clone(),
        };
        self.cursor.recorded |= !notes.attempts.is_empty() || !done_beyond.is_empty();
        self.cursor.recorded |= !notes.burials.is_empty();
        // Suspects stay so, whichever process is next.
        let claimed = match give_back {
            true => processed.max(self.quarantine.upto()),
            false => self.window.lanes.last().max(self.quarantine.upto()),
        };
        let read = self.window.read;
        Settlement {
            queue: &consumer.queue,
            partition_id: self.partition_id(),
            consumer: &consumer.name,
            owner: &consumer.owner,
            epoch: self.lease.epoch,
            processed,
            claimed,
            read: (!give_back && read.0 > self.cursor.claimed).then_some(read),
            notes: std::mem::take(&mut notes.attempts),
            burials: std::mem::take(&mut notes.burials),
            done_beyond,
            forget_attempts: self.cursor.recorded && processed > self.cursor.processed,
            keep: (!give_back).then_some(consumer.lease.duration),
        }
    }

    /// This is in the database now.
    fn saved(&mut self, outcome: &Settlement<'_>, clock: LeaseClock) {
        let lanes = &mut self.window.lanes;
        self.quarantine.written(&outcome.notes, |seq| {
            lanes.message(seq).is_some_and(|known| known.charged)
        });
        self.lease.renewed(clock);
        self.cursor.claimed = outcome.claimed;
        if outcome.processed > self.cursor.processed {
            self.signals.progress.notify_one();
        }
        self.cursor.processed = outcome.processed;
        self.cursor.written_at = Instant::now();
    }
}
