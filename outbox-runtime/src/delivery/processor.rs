//! A turn: works on one partition of one consumer for a while. It claims, hands the messages over
//! to the consumer's mode, and goes on with the next claim, until there is nothing to do or other
//! partitions should have their turn.

use super::burial::exhausted;
use super::claim::{Claim, ClaimAnswer, ClaimEnd};
use super::claiming::claim;
use super::consumer::Consumer;
use super::opening::{OpenedClaim, open};
use super::quarantine::{self, SOLITUDE_PAUSE, TurnQuarantine};
use super::settlement::{bury_exhausted, give_back, give_back_late, release_any, settle_failure};
use super::transactional::NextClaim;
use super::wakes::Wakes;
use super::{leased, transactional};
use crate::config::Pace;
use crate::database::cursor::{Ack, Claimed, RowVersion};
use crate::handler::HandlerResult;
use crate::queue::PartitionId;
use sea_orm::{DatabaseTransaction, DbErr};
use std::time::{Duration, Instant};

/// While other partitions may be waiting for its permit, a turn has at most this many batches, and
/// begins none after this time.
const BATCHES_PER_TURN: u32 = 16;
const LONG_TURN: Duration = Duration::from_secs(1);
/// For this time the acknowledgement of the last message waits for the next message. Under load one
/// statement then does both, which saves half of all claims.
const LINGER: Duration = Duration::from_millis(5);
/// How long a partition is left to a process that can handle its next message.
const FOREIGN_PAUSE: Duration = Duration::from_secs(1);

/// What a process remembers of a partition between turns.
pub(crate) struct PartitionState {
    /// How many messages to claim: fewer after a failure, doubling with success.
    pub(crate) limit: u32,
    /// The acknowledgement of what is done, which the next claim takes along.
    pub(crate) unsaved: Option<Ack>,
    /// Where the cursor was last, for engines that find it sooner by that.
    pub(crate) row_version: Option<RowVersion>,
    /// Failed batches in a row.
    failures: u32,
    /// Whether the next message is a suspect that must be alone in the process.
    pub(super) suspected: bool,
    /// Transactions in a row whose commit lost a race, of messages that are still there.
    pub(super) lost_races: u32,
}

impl PartitionState {
    pub(crate) fn new(batch_size: u32) -> Self {
        Self {
            limit: batch_size,
            unsaved: None,
            row_version: None,
            failures: 0,
            suspected: false,
            lost_races: 0,
        }
    }

    /// A batch succeeded: the next may be larger.
    pub(crate) fn succeeded(&mut self, batch_size: u32) {
        self.failures = 0;
        self.limit = self.limit.saturating_mul(2).min(batch_size);
    }

    /// The next batch is no larger than this.
    pub(crate) fn shrink_to(&mut self, messages: usize) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.limit = messages.clamp(1, self.limit.max(1));
    }

    /// A claim had more messages than their bytes allow: what is read and not kept is read again.
    pub(super) fn shrink_if_cut(&mut self, claimed: &Claimed) {
        if claimed.cut {
            self.shrink_to(claimed.rows.len());
        }
    }

    /// A batch failed after so many messages: the next is no larger than that.
    pub(crate) fn failed_after(&mut self, succeeded: usize, threshold: u32) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= threshold {
            self.shrink_to(succeeded);
        }
    }
}

/// What to do with the partition next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing to do; a signal or the reconciler wakes it.
    Rest,
    /// There may be more; other partitions have their turn before.
    Again,
    /// There is nothing to do before then: a message waits for its next attempt, or a pause is due.
    Later(Duration),
    /// Another process holds the lease.
    Busy,
}

impl Next {
    /// The next message is left to another process for a while. Not always the same time, so that
    /// two processes do not meet again and again.
    pub(super) fn for_another_process() -> Self {
        Self::Later(FOREIGN_PAUSE.mul_f64(0.5 + fastrand::f64()))
    }
}

/// Works on a partition for one turn. Without `wakes` nothing is waited for.
pub(crate) async fn turn(
    consumer: &Consumer,
    partition: u32,
    state: &mut PartitionState,
    wakes: Option<&Wakes>,
) -> Result<Next, DbErr> {
    Turn::new(consumer, partition, state, wakes).run().await
}

/// A turn under way.
struct Turn<'a> {
    consumer: &'a Consumer,
    partition: u32,
    state: &'a mut PartitionState,
    wakes: Option<&'a Wakes>,
    pace: Pace,
    began: Instant,
    /// How many claims were worked on.
    batches: u32,
    /// Whether nothing new is claimed any more: what is done is acknowledged, and the turn ends.
    last: bool,
    /// Whether there may be more messages than the last claim returned.
    more: bool,
    quarantine: TurnQuarantine,
    /// A claim that was made together with the acknowledgement of the one before.
    chained: Option<ClaimAnswer>,
}

impl<'a> Turn<'a> {
    fn new(
        consumer: &'a Consumer,
        partition: u32,
        state: &'a mut PartitionState,
        wakes: Option<&'a Wakes>,
    ) -> Self {
        Self {
            consumer,
            partition,
            state,
            wakes,
            pace: Pace::new(&consumer.tuning),
            began: Instant::now(),
            batches: 0,
            last: false,
            more: true,
            quarantine: TurnQuarantine::default(),
            chained: None,
        }
    }

    /// Claims and works until the turn is over.
    async fn run(mut self) -> Result<Next, DbErr> {
        loop {
            self.decide_if_last();
            self.pause().await;
            let mut answer = match self.chained.take() {
                Some(answer) => answer,
                None => {
                    quarantine::pay(self.consumer, self.partition_id()).await?;
                    if self.last && self.state.unsaved.is_none() {
                        return Ok(self.next_turn());
                    }
                    if !self.quarantine.enter(self.consumer, self.state) {
                        return Ok(Next::Later(SOLITUDE_PAUSE));
                    }
                    self.claim().await?
                }
            };
            if !answer.claimed.free {
                return Ok(Next::Busy);
            }
            self.state.row_version = answer.claimed.row_version.take();
            self.state.suspected = false;
            if answer.claimed.rows.is_empty() {
                return Ok(self.without_messages(&answer.claimed));
            }
            self.quarantine
                .leave_unless_needed(self.consumer, &answer.claimed);
            match self.work_on(answer).await? {
                ClaimEnd::Done(ack) => self.state.unsaved = Some(ack),
                ClaimEnd::Chained(answer) => self.chained = Some(answer),
                ClaimEnd::Settled(Next::Again) if !self.last => {}
                ClaimEnd::Settled(next) => return Ok(next),
            }
            self.batches = self.batches.saturating_add(1);
        }
    }

    fn partition_id(&self) -> PartitionId {
        self.consumer.queue_id.partition(self.partition)
    }

    /// Decides whether the batch that begins is the last. Once it is, it stays so: what was claimed
    /// last says nothing of what is left.
    fn decide_if_last(&mut self) {
        let consumer = self.consumer;
        let stop = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
        let long = self.batches >= BATCHES_PER_TURN
            || (self.batches > 0 && self.began.elapsed() >= LONG_TURN);
        // A transactional turn holds a connection of the pool: handlers of other partitions may be
        // waiting for that too.
        let held_long = consumer.is_transactional() && self.began.elapsed() >= LONG_TURN;
        self.last |= stop || held_long || (long && consumer.is_crowded());
    }

    /// Waits for the pace between two batches. If nothing is left to claim, waits a little for
    /// the next message, so that one statement acknowledges and claims.
    async fn pause(&mut self) {
        if self.batches > 0 && !self.last {
            tokio::time::sleep(self.pace.next()).await;
        }
        let Some(wakes) = self.wakes else {
            return;
        };
        let linger = !self.more && !self.last && self.state.unsaved.is_some();
        if linger && !self.consumer.is_crowded() {
            tokio::select! {
                () = wakes.wait(LINGER) => {}
                () = self.consumer.stop.stopping.cancelled() => {}
            }
        }
        // A chained claim has looked already: a signal since then is not heard yet.
        if self.chained.is_none() {
            wakes.heard();
        }
    }

    /// Acknowledges what is unsaved, and claims messages unless this is the last batch.
    async fn claim(&mut self) -> Result<ClaimAnswer, DbErr> {
        let limit = if self.last { 0 } else { self.state.limit };
        let refuse = self.quarantine.refuse(self.consumer);
        let partition_id = self.partition_id();
        let answer = claim(self.consumer, partition_id, self.state, limit, refuse).await?;
        let claimed = &answer.claimed;
        self.more = claimed.cut || claimed.rows.len() >= limit as usize;
        self.state.shrink_if_cut(claimed);
        Ok(answer)
    }

    /// How the turn goes on if a claim returned no messages.
    fn without_messages(&mut self, claimed: &Claimed) -> Next {
        match claimed.due_in {
            Some(due_in) if due_in > 0 => Next::Later(Duration::from_micros(due_in.unsigned_abs())),
            _ if self.quarantine.may_have_refused(claimed) && !self.last => {
                self.state.suspected = true;
                Next::Again
            }
            _ if self.last => self.next_turn(),
            _ => Next::Rest,
        }
    }

    /// Leaves the pause before the next batch to the time without the permit.
    fn next_turn(&mut self) -> Next {
        match self.pace.next() {
            Duration::ZERO => Next::Again,
            pause => Next::Later(pause),
        }
    }

    /// Hands a claim over to the consumer's mode, unless its handler is not to run.
    async fn work_on(&mut self, answer: ClaimAnswer) -> Result<ClaimEnd, DbErr> {
        let (consumer, partition) = (self.consumer, self.partition);
        let ClaimAnswer { claimed, clock, tx } = answer;
        // On the connection in hand, if there is one: it may be the last of the pool.
        let opened = match &tx {
            Some(tx) => open(consumer, tx, partition, claimed, clock).await?,
            None => open(consumer, &consumer.db, partition, claimed, clock).await?,
        };
        match opened {
            OpenedClaim::Ours(claim) if exhausted(consumer, &claim) => {
                release_any(tx).await;
                self.state.lost_races = 0;
                bury_exhausted(consumer, &claim).await
            }
            OpenedClaim::Foreign { claim, elsewhere } => {
                leave_or_fail(consumer, &claim, elsewhere, tx).await
            }
            // The database answered so late that a handler might be dropped for want of time.
            OpenedClaim::Ours(claim) if clock.is_half_over() => {
                give_back_late(consumer, &claim, tx).await
            }
            OpenedClaim::Ours(claim) if consumer.is_transactional() => {
                let next = NextClaim {
                    last: self.last,
                    refuse: self.quarantine.refuse(consumer),
                };
                transactional::work(consumer, self.state, claim, tx, next).await
            }
            OpenedClaim::Ours(claim) => leased::work(consumer, self.state, claim).await,
        }
    }
}

/// The first message is of a type this process has no handler for. While there is a process that
/// has one, the message is left to it, uncharged. Otherwise it fails like any other.
async fn leave_or_fail(
    consumer: &Consumer,
    claim: &Claim,
    elsewhere: bool,
    tx: Option<DatabaseTransaction>,
) -> Result<ClaimEnd, DbErr> {
    let event_type = claim.messages[0].event_type();
    if elsewhere {
        tracing::debug!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            event = event_type,
            "left to another process, which has a handler for it"
        );
        give_back(consumer, claim, tx).await?;
        return Ok(ClaimEnd::Settled(Next::for_another_process()));
    }
    release_any(tx).await;
    let reason = format!(
        "consumer `{}` has no handler for event type `{event_type}`",
        consumer.name
    );
    let failed = HandlerResult::Retry { reason };
    settle_failure(consumer, claim, 0, Vec::new(), failed).await
}
