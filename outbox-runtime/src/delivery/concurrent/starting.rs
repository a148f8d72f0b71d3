//! Which of the known messages run.

use super::{FinishedTask, Session};
use crate::delivery::burial::{exhausted_reason, is_exhausted};
use crate::delivery::guard::{self, HandlerEnd, LeaseClock, RunContext};
use crate::delivery::quarantine::SOLITUDE_PAUSE;
use crate::handler::Progress;
use sea_orm::DbErr;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;

/// The permits of handlers that run at once; a handler that runs has its own.
#[derive(Default)]
pub(super) struct Permits {
    /// For the next handler.
    pub(super) spare: Option<OwnedSemaphorePermit>,
    /// Whether a message is ready that has no permit.
    pub(super) wanted: bool,
}

impl Session<'_> {
    /// Starts what may run. False if the lease was lost.
    pub(super) async fn start_ready(&mut self) -> Result<bool, DbErr> {
        if self.window.lanes.running() == 0 {
            self.quarantine.leave();
        }
        self.permits.wanted = false;
        let lease = self.start_some().await;
        // Other partitions may be waiting for a permit.
        self.permits.spare = None;
        lease
    }

    /// Starts handlers, the oldest message first, while there are permits.
    async fn start_some(&mut self) -> Result<bool, DbErr> {
        while self.window.lanes.running() < self.consumer.concurrency as usize {
            let Some(seq) = self.window.lanes.next_ready(Instant::now()) else {
                break;
            };
            if !self.may_run(seq) || !self.take_permit() {
                break;
            }
            if self.quarantine.is_suspect(seq) {
                if !self.may_run_suspect(seq) {
                    break;
                }
                if !self.charge_or_bury(seq).await? {
                    return Ok(false);
                }
            }
            // The statements before may have taken long: the handler would have no time.
            if self.lease.is_late() || self.lease.stop.stopping.is_cancelled() {
                break;
            }
            self.start(seq);
        }
        Ok(true)
    }

    /// Whether the database says that a message is claimed, and it may run beside what runs. While
    /// a suspect is ready or runs, nothing else does: it is the oldest.
    fn may_run(&self, seq: i64) -> bool {
        let lanes = &self.window.lanes;
        let is_suspect = |seq| self.quarantine.is_suspect(seq);
        let alone = is_suspect(seq) || lanes.first_running().is_some_and(is_suspect);
        seq <= self.cursor.claimed && (!alone || lanes.running() == 0)
    }

    /// Whether there is a permit for one more handler.
    fn take_permit(&mut self) -> bool {
        let permits = &mut self.permits;
        if permits.spare.is_none() {
            permits.spare = self.consumer.permits.clone().try_acquire_owned().ok();
        }
        permits.wanted |= permits.spare.is_none();
        permits.spare.is_some()
    }

    /// Whether no other partition runs a message that may kill the process, if that matters for
    /// this one.
    fn may_run_suspect(&mut self, seq: i64) -> bool {
        let Some(known) = self.window.lanes.message(seq) else {
            self.quarantine.leave();
            return true;
        };
        let alone = self.quarantine.enter(self.consumer, known.attempts);
        if !alone {
            self.retry.at = Some(Instant::now() + SOLITUDE_PAUSE);
        }
        alone
    }

    /// Charges a death before the handler runs. A message that has too many becomes a dead letter
    /// instead. False if the lease was lost.
    async fn charge_or_bury(&mut self, seq: i64) -> Result<bool, DbErr> {
        let Some(known) = self.window.lanes.message(seq) else {
            return Ok(true);
        };
        if known.charged {
            // An earlier try to charge it failed, and was repeated with the notes since.
            return Ok(true);
        }
        let (message, attempts) = (known.message.clone(), known.attempts);
        if is_exhausted(self.consumer, &message, attempts) {
            let reason = exhausted_reason(self.consumer, &message).await?;
            self.bury(seq, attempts.total(), &reason);
        } else {
            known.charged = true;
            self.unwritten.attempts.push(self.quarantine.charge(seq));
        }
        self.save(false).await
    }

    /// Starts the handler of a message, if the message is still to be done.
    fn start(&mut self, seq: i64) {
        let consumer = self.consumer;
        let Some(known) = self.window.lanes.message(seq) else {
            return;
        };
        let attempts = known.attempts.total().unsigned_abs();
        let message = known.message.with_attempts(attempts);
        self.window.lanes.start(seq);
        // Each has the time of a lease, which is renewed meanwhile.
        let clock = LeaseClock::start(consumer.lease);
        self.quarantine.started(clock);
        let (routes, states) = (consumer.routes.clone(), consumer.states.clone());
        let (stop, lost) = (self.lease.stop.clone(), self.lease.lost.clone());
        let permit = self.permits.spare.take();
        self.tasks.spawn(async move {
            let _permit = permit;
            let mut progress = Progress::default();
            let messages = [message];
            let call = async |context: &RunContext| {
                routes
                    .walk(None, &messages, &mut progress, context, clock)
                    .await
            };
            let ended = guard::run(&stop, clock, &states, call, guard::nothing);
            let ended = lost.run_until_cancelled(ended).await;
            FinishedTask {
                seq,
                // Not if it was dropped before its own time was over.
                overran: Instant::now() >= clock.drop_at(),
                ended: ended.unwrap_or(HandlerEnd::LeaseOver),
                rejected: progress.take_rejected().pop().map(|(_, reason)| reason),
            }
        });
    }
}
