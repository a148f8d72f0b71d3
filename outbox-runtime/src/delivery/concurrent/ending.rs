//! What becomes of messages whose handlers ended, and how a session ends.

use super::{FinishedTask, Session};
use crate::database::attempts::Attempts;
use crate::delivery::burial::burial;
use crate::delivery::guard::AttemptEnd;
use crate::delivery::processor::Next;
use crate::delivery::quarantine::taken_back;
use crate::delivery::verdict::{Verdict, failed, verdict};
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
            // A handler's panic is an outcome, so the task itself failed: begin anew.
            self.broken = true;
            return;
        };
        let consumer = self.consumer;
        let attempt = match rejected {
            Some(reason) => AttemptEnd::Result(HandlerResult::Reject { reason }),
            None => ended.attempt(consumer.lease.duration),
        };
        let Some(known) = self.window.lanes.message(seq) else {
            return;
        };
        let AttemptEnd::Result(result) = consumer.stop.excuse(attempt) else {
            if known.charged {
                self.take_back_charge(seq);
            }
            return self.window.lanes.postpone(seq, None);
        };
        if overran && known.charged {
            self.quarantine.overran();
        }
        let verdict = verdict(consumer, &known.message, known.attempts, result);
        self.carry_out(seq, verdict);
    }

    /// Does with a message what its handler's result asks for.
    fn carry_out(&mut self, seq: i64, verdict: Verdict) {
        let Some(known) = self.window.lanes.message(seq) else {
            return;
        };
        let (attempts, charged) = (known.attempts, known.charged);
        match verdict {
            Verdict::Fine => {
                if charged || attempts != Attempts::default() {
                    self.unwritten.done.push(seq);
                }
                self.window.lanes.finish(seq);
            }
            Verdict::Again { delay, reason } => {
                known.attempts.failures = attempts.failures.saturating_add(1);
                known.charged = false;
                let note = failed(seq, charged, delay, reason);
                self.unwritten.attempts.push(note);
                let due = Instant::now() + delay;
                self.window.lanes.postpone(seq, Some(due));
            }
            Verdict::Bury(reason) => {
                self.bury(seq, attempts.total().saturating_add(1), &reason);
            }
        }
    }

    /// The message becomes a dead letter; nothing more is to be done for it.
    pub(super) fn bury(&mut self, seq: i64, attempts: i32, reason: &str) {
        if let Some(known) = self.window.lanes.message(seq) {
            let message = known.message.clone();
            self.unwritten
                .burials
                .push(burial(&message, attempts, reason));
            self.unwritten.buried.push(message);
        }
        self.window.lanes.finish(seq);
    }

    /// Gives the lease back, with what is done beyond the cursor.
    pub(super) async fn close(&mut self) -> Result<Next, DbErr> {
        self.give_back(&[]).await?;
        Ok(match self.window.foreign {
            true => Next::for_another_process(),
            false => Next::Rest,
        })
    }

    /// `ended` are messages whose handlers did nothing wrong, and whose results are forgotten.
    async fn give_back(&mut self, ended: &[i64]) -> Result<(), DbErr> {
        let given_back = self.save(true).await;
        match given_back {
            Ok(true) => {}
            Ok(false) => self.take_back_without_lease(ended).await,
            // The next session, which is not there before the database answers, takes it back.
            Err(_) => {
                let running = self.running_beside(ended);
                let partition_id = self.partition_id();
                self.quarantine
                    .owe_charge(self.consumer, partition_id, running);
            }
        }
        given_back.map(drop)
    }

    /// Another process may have the lease, or will soon. What runs is cancelled, has until then to
    /// come to its end, and is forgotten.
    pub(super) async fn lose(&mut self, until: Instant) -> Next {
        tracing::warn!(
            queue = &*self.consumer.queue,
            partition = self.partition,
            consumer = self.consumer.name,
            running = self.tasks.len(),
            "lost the lease; what was done beyond the cursor will be delivered again"
        );
        let ended = self.forget_tasks(until).await;
        self.take_back_without_lease(&ended).await;
        Next::Busy
    }

    /// The database was slow, and then kept the lease for us all the same. What runs ends
    /// as if the lease was lost, but no other process has to wait until it is over.
    pub(super) async fn leave(&mut self, until: Instant) -> Result<Next, DbErr> {
        let ended = self.forget_tasks(until).await;
        if let Some(seq) = self.quarantine.charged_among(&ended) {
            self.take_back_charge(seq);
        }
        self.give_back(&ended).await?;
        Ok(Next::Busy)
    }

    /// Takes back the charge of a suspect after the lease was lost, unless its handler still ran,
    /// or did not return in time.
    async fn take_back_without_lease(&mut self, ended: &[i64]) {
        let running = self.running_beside(ended);
        let partition_id = self.partition_id();
        self.quarantine
            .take_back_without_lease(self.consumer, partition_id, running)
            .await;
    }

    /// The first message whose handler was started, and did not come to an end in time.
    fn running_beside(&self, ended: &[i64]) -> Option<i64> {
        let running = self.window.lanes.first_running();
        running.filter(|seq| !ended.contains(seq))
    }

    /// Takes back a charge that was made before the attempt.
    pub(super) fn take_back_charge(&mut self, seq: i64) {
        if let Some(known) = self.window.lanes.message(seq) {
            known.charged = false;
            self.unwritten.attempts.push(taken_back(seq));
        }
    }

    /// Cancels the handlers that run. Returns the messages whose handlers ended in time, or were
    /// dropped while they still had time of their own. Their results are not written down.
    async fn forget_tasks(&mut self, until: Instant) -> Vec<i64> {
        self.lease.stop.stopping.cancel();
        let mut ended = Vec::new();
        let ending = async {
            while let Some(finished) = self.tasks.join_next().await {
                ended.extend(finished.ok().filter(|f| !f.overran).map(|f| f.seq));
            }
        };
        let _ = tokio::time::timeout_at(until.into(), ending).await;
        self.tasks.shutdown().await;
        let running = self.window.lanes.first_running();
        ended.extend(running.filter(|_| self.quarantine.had_time()));
        ended
    }
}
