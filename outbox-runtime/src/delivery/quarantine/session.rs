//! What a concurrent session knows of suspects.

use super::charge::charged;
use super::{Charge, Solitude, needs_solitude, owe, take_back};
use crate::database::attempts::{AttemptChange, AttemptNote, Attempts};
use crate::delivery::consumer::Consumer;
use crate::delivery::guard::LeaseClock;
use crate::queue::PartitionId;
use std::time::Instant;

/// The suspects of a session. One of them is at work at a time, and nothing beside it.
pub(crate) struct SessionQuarantine {
    /// Up to here messages are suspects: a claim of them died.
    upto: i64,
    /// A suspect that is charged, or is about to be, and has not been started.
    unstarted: Option<i64>,
    /// The time of the handler that was started last: a suspect's, while one is charged.
    clock: Option<LeaseClock>,
    /// The charge that is in the database.
    charge: Option<Charge>,
    /// Held while a suspect runs and until what became of it is written down.
    solitude: Option<Solitude>,
}

impl SessionQuarantine {
    /// For a session whose cursor says that messages are claimed up to here.
    pub(crate) fn new(claimed: i64) -> Self {
        Self {
            upto: claimed,
            unstarted: None,
            clock: None,
            charge: None,
            solitude: None,
        }
    }

    /// Whether a message may have killed a process.
    pub(crate) fn is_suspect(&self, seq: i64) -> bool {
        seq <= self.upto
    }

    /// Up to where messages stay claimed, so that they stay suspects whichever process is next.
    pub(crate) fn upto(&self) -> i64 {
        self.upto
    }

    /// Takes the right to solitude for a suspect that needs it. False if another suspect has it.
    pub(crate) fn enter(&mut self, consumer: &Consumer, attempts: Attempts) -> bool {
        self.leave();
        if !needs_solitude(consumer, attempts) {
            return true;
        }
        self.solitude = Solitude::take(consumer);
        self.solitude.is_some()
    }

    /// Gives the right to solitude up: nothing runs, and what ran is written down.
    pub(crate) fn leave(&mut self) {
        self.solitude = None;
    }

    /// A suspect is about to be charged. Returns the note to write.
    pub(crate) fn charge(&mut self, seq: i64) -> AttemptNote {
        self.unstarted = Some(seq);
        charged(seq)
    }

    /// The handler of the suspect runs, and has the time of this clock.
    pub(crate) fn started(&mut self, clock: LeaseClock) {
        self.unstarted = None;
        self.clock = Some(clock);
    }

    /// Whether the handler that was started last, and is dropped now, still had time.
    pub(crate) fn had_time(&self) -> bool {
        self.clock
            .is_some_and(|clock| Instant::now() < clock.drop_at())
    }

    /// A suspect that was charged and not started, which has done nothing wrong.
    pub(crate) fn take_unstarted(&mut self) -> Option<i64> {
        self.unstarted.take()
    }

    /// The handler of the charged message did not return in time.
    pub(crate) fn overran(&mut self) {
        if let Some(charge) = &mut self.charge {
            charge.set_overran(true);
        }
    }

    /// Remembers which charge is in the database, now that these notes are written. `is_charged`
    /// says whether a message is still to be done and charged.
    pub(crate) fn written(&mut self, notes: &[AttemptNote], is_charged: impl FnOnce(i64) -> bool) {
        let charges = |note: &&AttemptNote| matches!(note.change, AttemptChange::Charged);
        if let Some(note) = notes.iter().rfind(charges) {
            self.charge = Some(Charge::on_record(note.seq));
        }
        self.charge = self.charge.filter(|charge| is_charged(charge.seq()));
    }

    /// An answer was lost, so these notes are written or not. If one of them is about the charged
    /// message, it is not known whether there still is a charge to take back.
    pub(crate) fn may_be_written(&mut self, notes: &[AttemptNote]) {
        let about = |charge: &Charge| notes.iter().any(|note| note.seq == charge.seq());
        self.charge = self.charge.filter(|charge| !about(charge));
    }

    /// The charged message, if it is one of these.
    pub(crate) fn charged_among(&self, seqs: &[i64]) -> Option<i64> {
        let charge = self.charge.filter(|charge| seqs.contains(&charge.seq()));
        charge.map(Charge::seq)
    }

    /// Takes the charge back after the lease was lost, unless the handler did not return in time.
    /// It did not if its message is `running`.
    pub(crate) async fn take_back_without_lease(
        &mut self,
        consumer: &Consumer,
        partition_id: PartitionId,
        running: Option<i64>,
    ) {
        if let Some(seq) = self.end_charge(running) {
            take_back(consumer, partition_id, seq).await;
        }
    }

    /// The same if the lease could not be given back: the database does not answer now.
    pub(crate) fn owe_charge(
        &mut self,
        consumer: &Consumer,
        partition_id: PartitionId,
        running: Option<i64>,
    ) {
        if let Some(seq) = self.end_charge(running) {
            owe(consumer, partition_id, seq);
        }
    }

    /// Forgets the charge. Returns its message, if the charge is to be taken back.
    fn end_charge(&mut self, running: Option<i64>) -> Option<i64> {
        let charge = self.charge.take()?;
        let charge = (running != Some(charge.seq())).then_some(charge);
        charge.and_then(Charge::taken_back_without_lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LeaseConfig;

    #[test]
    fn a_charge_is_known_from_its_write_until_its_message_is_done() {
        let mut quarantine = SessionQuarantine::new(10);
        assert!(quarantine.is_suspect(10) && !quarantine.is_suspect(11));
        let note = quarantine.charge(7);
        assert_eq!(quarantine.charged_among(&[7]), None, "it is not written");
        quarantine.written(&[note], |seq| seq == 7);
        assert_eq!(quarantine.charged_among(&[6, 7]), Some(7));
        assert_eq!(quarantine.charged_among(&[6]), None);
        quarantine.written(&[], |_| false);
        assert_eq!(quarantine.charged_among(&[7]), None, "it is done");
    }

    #[test]
    fn after_a_lost_answer_there_is_no_charge_to_take_back() {
        let mut quarantine = SessionQuarantine::new(10);
        let note = quarantine.charge(7);
        quarantine.written(&[note], |_| true);
        quarantine.may_be_written(&[charged(8)]);
        assert_eq!(quarantine.charged_among(&[7]), Some(7), "of another");
        quarantine.may_be_written(&[charged(7)]);
        assert_eq!(quarantine.charged_among(&[7]), None);
    }

    #[test]
    fn a_suspect_is_unstarted_from_its_charge_until_it_is_started() {
        let mut quarantine = SessionQuarantine::new(10);
        quarantine.charge(7);
        assert_eq!(quarantine.take_unstarted(), Some(7));
        quarantine.charge(7);
        quarantine.started(LeaseClock::start(LeaseConfig::default()));
        assert_eq!(quarantine.take_unstarted(), None);
        assert!(quarantine.had_time());
    }
}
