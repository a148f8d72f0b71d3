//! What became of messages, and writing it down.

use super::super::guard::{AttemptEnd, LeaseClock};
use super::super::processor::{FOREIGN_PAUSE, Next};
use super::super::quarantine;
use super::super::settlement::{self, SettlementEnd, Verdict, burial, verdict};
use super::{FinishedTask, SAVE_AFTER, Session, Signals};
use crate::database::attempts::{AttemptChange, AttemptNote, Attempts};
use crate::database::settlement::Settlement;
use crate::handler::HandlerResult;
use sea_orm::DbErr;
use std::time::Instant;
use tokio::task::JoinError;

impl Session<'_> {
    /// Notes what became of a message.
    pub(super) fn finished(&mut self, finished: Result<FinishedTask, JoinError>) {
        let Ok(FinishedTask {
            seq,
            ended,
            overran,
            rejected,
        }) = finished
        else {
            // A panic is an outcome, so this is none of a handler's: begin anew.
            self.broken = true;
            return;
        };
        let consumer = self.consumer;
        let attempt = match rejected {
            Some(reason) => AttemptEnd::Result(HandlerResult::Reject { reason }),
            None => ended.attempt(consumer.lease.duration),
        };
        let Some(item) = self.lanes.message(seq) else {
            return;
        };
        let AttemptEnd::Result(result) = consumer.stop.excuse(attempt) else {
            if item.charged {
                self.take_back_charge(seq);
            }
            return self.lanes.postpone(seq, None);
        };
        let (attempts, charged) = (item.attempts, item.charged);
        self.overran |= overran && charged;
        match verdict(consumer, &item.message, attempts, result) {
            Verdict::Fine => {
                if charged || attempts != Attempts::default() {
                    self.notes.done.push(seq);
                }
                self.lanes.finish(seq);
            }
            Verdict::Again { delay, reason } => {
                item.attempts.failures = attempts.failures.saturating_add(1);
                item.charged = false;
                let change = AttemptChange::Failed {
                    charged,
                    delay,
                    reason,
                };
                self.notes.attempts.push(AttemptNote { seq, change });
                self.lanes.postpone(seq, Some(Instant::now() + delay));
            }
            Verdict::Bury(reason) => {
                self.bury(seq, attempts.total().saturating_add(1), &reason);
            }
        }
    }

    pub(super) fn bury(&mut self, seq: i64, attempts: i32, reason: &str) {
        if let Some(item) = self.lanes.message(seq) {
            self.notes
                .burials
                .push(burial(&item.message, attempts, reason));
            self.notes.buried.push(item.message.clone());
        }
        self.lanes.finish(seq);
    }

    pub(super) fn must_save(&mut self) -> bool {
        let claimed = self.lanes.last() > self.claimed;
        let renew = Instant::now() >= self.clock.renew_at();
        let progress = self.lanes.processed() > self.saved
            && (self.tasks.is_empty() || self.saved_at.elapsed() > SAVE_AFTER);
        !self.notes.is_empty() || claimed || renew || progress
    }

    /// Writes progress and notes, and renews the lease or gives it back. False if
    /// it was lost.
    pub(super) async fn save(
        &mut self,
        give_back: bool,
        signals: Signals<'_>,
    ) -> Result<bool, DbErr> {
        let consumer = self.consumer;
        let clock = LeaseClock::start(consumer.lease);
        if give_back && let Some(seq) = self.unstarted.take() {
            // A suspect that was charged and not started has done nothing wrong.
            self.take_back_charge(seq);
        }
        let notes = std::mem::take(&mut self.notes);
        let processed = self.lanes.processed();
        let mut done_beyond = notes.done.clone();
        if give_back {
            done_beyond = self.lanes.done_beyond();
        }
        self.recorded |= !notes.attempts.is_empty() || !done_beyond.is_empty();
        self.recorded |= !notes.burials.is_empty();
        // Suspects stay so, whoever is next.
        let claimed = if give_back {
            processed.max(self.suspects)
        } else {
            self.lanes.last().max(self.suspects)
        };
        let outcome = Settlement {
            queue: &consumer.queue,
            partition_id: self.partition_id(),
            consumer: &consumer.name,
            owner: &consumer.owner,
            epoch: self.epoch,
            processed,
            claimed,
            read: (!give_back && self.read.0 > self.claimed).then_some(self.read),
            notes: notes.attempts,
            burials: notes.burials,
            done_beyond,
            forget_attempts: self.recorded && processed > self.saved,
            keep: (!give_back).then_some(consumer.lease.duration),
        };
        let written = settlement::write(consumer, &notes.buried, self.clock, &outcome, None).await;
        match written {
            Ok(SettlementEnd::Written) => {
                self.note_charge(&outcome.notes);
                self.epoch += 1;
                self.clock = clock;
                self.claimed = claimed;
                if processed > self.saved {
                    signals.progress.notify_one();
                }
                self.saved = processed;
                self.saved_at = Instant::now();
                Ok(true)
            }
            written => {
                if matches!(written, Ok(SettlementEnd::Unknown)) {
                    // Whether there is a charge to take back is not known.
                    self.charged = None;
                }
                self.notes.attempts.splice(..0, outcome.notes);
                self.notes.burials.splice(..0, outcome.burials);
                self.notes.buried.splice(..0, notes.buried);
                self.notes.done.splice(..0, notes.done);
                written.map(|_| false)
            }
        }
    }

    /// Remembers which suspect's charge is in the database, now that these notes are written.
    fn note_charge(&mut self, notes: &[AttemptNote]) {
        let charges = |note: &&AttemptNote| matches!(note.change, AttemptChange::Charged);
        if let Some(note) = notes.iter().rfind(charges) {
            self.charged = Some(note.seq);
        }
        let charged = |seq| self.lanes.message(seq).is_some_and(|item| item.charged);
        if !self.charged.is_some_and(charged) {
            (self.charged, self.overran) = (None, false);
        }
    }

    /// Gives the lease back, with what is done beyond the cursor.
    pub(super) async fn close(&mut self, signals: Signals<'_>) -> Result<Next, DbErr> {
        self.give_back(signals, &[]).await?;
        Ok(if self.foreign {
            Next::Later(FOREIGN_PAUSE.mul_f64(0.5 + fastrand::f64()))
        } else {
            Next::Rest
        })
    }

    /// `ended` are messages whose handlers ended in time and are forgotten.
    async fn give_back(&mut self, signals: Signals<'_>, ended: &[i64]) -> Result<(), DbErr> {
        if !self.save(true, signals).await? {
            self.take_back_vain_charge(ended).await;
        }
        Ok(())
    }

    /// Somebody else may have the lease, or will soon: what runs is cancelled, has
    /// until then to come to its end, and is forgotten.
    pub(super) async fn lose(&mut self, until: Instant) -> Next {
        tracing::warn!(
            queue = &*self.consumer.queue,
            partition = self.partition,
            consumer = self.consumer.name,
            running = self.tasks.len(),
            "lost the lease; what was done beyond the cursor will be delivered again"
        );
        let ended = self.forget_tasks(until).await;
        self.take_back_vain_charge(&ended).await;
        Next::Busy
    }

    /// The database was slow, and then kept the lease for us all the same: what runs ends
    /// as if it was lost, but nobody else has to wait until it is over.
    pub(super) async fn leave(
        &mut self,
        until: Instant,
        signals: Signals<'_>,
    ) -> Result<Next, DbErr> {
        let ended = self.forget_tasks(until).await;
        if let Some(seq) = self.charged.filter(|seq| ended.contains(seq)) {
            self.take_back_charge(seq);
        }
        self.give_back(signals, &ended).await?;
        Ok(Next::Busy)
    }

    /// Takes back the charge of a suspect after the lease was lost, unless its handler still ran,
    /// or did not return in time.
    async fn take_back_vain_charge(&mut self, ended: &[i64]) {
        let Some(seq) = self.charged.take() else {
            return;
        };
        let runs = self.lanes.first_running() == Some(seq) && !ended.contains(&seq);
        if !runs && !self.overran {
            quarantine::take_back(self.consumer, self.partition_id(), seq).await;
        }
    }

    /// Takes back a charge that was made before the attempt.
    fn take_back_charge(&mut self, seq: i64) {
        if let Some(item) = self.lanes.message(seq) {
            item.charged = false;
            let change = AttemptChange::TakenBack;
            self.notes.attempts.push(AttemptNote { seq, change });
        }
    }

    /// Cancels what runs. Returns the messages whose handlers ended in time; what becomes of them is
    /// not written down.
    async fn forget_tasks(&mut self, until: Instant) -> Vec<i64> {
        self.stop.stopping.cancel();
        let mut ended = Vec::new();
        let ending = async {
            while let Some(finished) = self.tasks.join_next().await {
                ended.extend(finished.ok().filter(|f| !f.overran).map(|f| f.seq));
            }
        };
        let _ = tokio::time::timeout_at(until.into(), ending).await;
        self.tasks.shutdown().await;
        ended
    }
}
