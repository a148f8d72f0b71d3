//! Which of the known messages run.

use super::super::guard::{self, HandlerEnd, LeaseClock, RunContext};
use super::super::quarantine::{SOLITUDE_PAUSE, needs_solitude};
use super::super::settlement::{exhausted_reason, is_exhausted};
use super::{FinishedTask, Session, Signals};
use crate::database::attempts::{AttemptChange, AttemptNote};
use crate::handler::Progress;
use sea_orm::DbErr;
use std::time::Instant;

impl Session<'_> {
    /// Starts what may run. False if the lease was lost.
    pub(super) async fn start_ready(&mut self, signals: Signals<'_>) -> Result<bool, DbErr> {
        if self.lanes.running() == 0 {
            self.alone = None;
        }
        self.wants_permit = false;
        let lease = self.start_some(signals).await;
        // Others may be waiting for it.
        self.spare = None;
        lease
    }

    async fn start_some(&mut self, signals: Signals<'_>) -> Result<bool, DbErr> {
        while self.lanes.running() < self.consumer.concurrency as usize {
            let Some(seq) = self.lanes.next_ready(Instant::now()) else {
                break;
            };
            // While a suspect is ready or runs, nothing else does: it is the oldest.
            let suspect = seq <= self.suspects;
            let alone = suspect || self.tasks_are_suspects();
            if seq > self.claimed || (alone && self.lanes.running() > 0) {
                break;
            }
            if !self.take_permit() {
                self.wants_permit = true;
                break;
            }
            if suspect {
                if !self.may_be_alone(seq) {
                    break;
                }
                if !self.charge(seq, signals).await? {
                    return Ok(false);
                }
            }
            // Statements before this one may have taken long: it would have no time.
            if self.is_late() || self.stop.stopping.is_cancelled() {
                break;
            }
            self.start(seq);
        }
        Ok(true)
    }

    pub(super) fn tasks_are_suspects(&self) -> bool {
        self.lanes
            .first_running()
            .is_some_and(|seq| seq <= self.suspects)
    }

    /// Whether there is a permit for one more handler.
    pub(super) fn take_permit(&mut self) -> bool {
        if self.spare.is_none() {
            self.spare = self.consumer.permits.clone().try_acquire_owned().ok();
        }
        self.spare.is_some()
    }

    /// Whether no other partition runs a message that may kill the process.
    pub(super) fn may_be_alone(&mut self, seq: i64) -> bool {
        self.alone = None;
        let Some(item) = self.lanes.message(seq) else {
            return true;
        };
        if !needs_solitude(self.consumer, item.attempts) {
            return true;
        }
        self.alone = self.consumer.solitude.clone().try_acquire_owned().ok();
        if self.alone.is_none() {
            self.retry_at = Some(Instant::now() + SOLITUDE_PAUSE);
        }
        self.alone.is_some()
    }

    /// Charges a death before the handler runs; one too many buries the message instead.
    pub(super) async fn charge(&mut self, seq: i64, signals: Signals<'_>) -> Result<bool, DbErr> {
        let Some(item) = self.lanes.message(seq) else {
            return Ok(true);
        };
        if item.charged {
            // Written down already, with what could not be written before.
            return Ok(true);
        }
        let (message, attempts) = (item.message.clone(), item.attempts);
        if is_exhausted(self.consumer, &message, attempts) {
            let reason = exhausted_reason(self.consumer, &message).await?;
            self.bury(seq, attempts.total(), &reason);
        } else {
            item.charged = true;
            self.unstarted = Some(seq);
            let change = AttemptChange::Charged;
            self.notes.attempts.push(AttemptNote { seq, change });
        }
        self.save(false, signals).await
    }

    pub(super) fn start(&mut self, seq: i64) {
        let consumer = self.consumer;
        let Some(item) = self.lanes.message(seq) else {
            return;
        };
        let attempts = item.attempts.total().unsigned_abs();
        let message = item.message.with_attempts(attempts);
        self.lanes.start(seq);
        self.unstarted = None;
        let (routes, states) = (consumer.routes.clone(), consumer.states.clone());
        let (stop, lost, lease) = (self.stop.clone(), self.lost.clone(), consumer.lease);
        let permit = self.spare.take();
        self.tasks.spawn(async move {
            let _permit = permit;
            let mut progress = Progress::default();
            // Each has the time of a lease, which is renewed meanwhile.
            let clock = LeaseClock::start(lease);
            let messages = [message];
            let call = async |running: &RunContext| {
                routes
                    .walk(None, &messages, &mut progress, running, clock)
                    .await
            };
            let ended = guard::run(&stop, clock, &states, call, guard::nothing);
            let ended = lost.run_until_cancelled(ended).await;
            let ended = ended.unwrap_or(HandlerEnd::LeaseOver);
            FinishedTask {
                seq,
                overran: clock.has_overrun(&ended),
                ended,
                rejected: progress.take_rejected().pop().map(|(_, reason)| reason),
            }
        });
    }
}
