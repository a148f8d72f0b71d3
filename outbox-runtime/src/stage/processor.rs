//! One partition of one consumer: claim, hand over to the mode, go on.

use super::guard::{LeaseClock, Stop};
use super::{leased, transactional};
use crate::handler::{
    HandlerResult, LeasedHandler, LeasedMessageHandler, OutboxMessage, TransactionalHandler,
    TransactionalMessageHandler,
};
use crate::store::cursor::{self, Ack, Burial, ClaimRequest, Claimed, Failure, Settlement};
use crate::tuning::{LeaseConfig, RetryPolicy, WorkerTuning};
use sea_orm::{DatabaseConnection, DbErr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How many batches a partition may have before others have their turn.
const BATCHES_PER_TURN: u32 = 16;
/// The longest reason that is kept.
const MAX_REASON: usize = 2_000;

/// A consumer's handler.
#[derive(Clone)]
pub(crate) enum Handler {
    LeasedEach(Arc<dyn LeasedMessageHandler>),
    LeasedBatch(Arc<dyn LeasedHandler>),
    TransactionalEach(Arc<dyn TransactionalMessageHandler>),
    TransactionalBatch(Arc<dyn TransactionalHandler>),
}

impl Handler {
    /// The mode as the database knows it.
    pub(crate) fn mode(&self) -> &'static str {
        match self {
            Self::LeasedEach(_) | Self::LeasedBatch(_) => "leased",
            Self::TransactionalEach(_) | Self::TransactionalBatch(_) => "transactional",
        }
    }
}

/// A consumer of a queue in this process.
pub(crate) struct Consumer {
    pub(crate) db: DatabaseConnection,
    pub(crate) queue: Arc<str>,
    pub(crate) queue_id: i64,
    pub(crate) name: String,
    pub(crate) owner: Arc<str>,
    pub(crate) handler: Handler,
    pub(crate) tuning: WorkerTuning,
    pub(crate) lease: LeaseConfig,
    pub(crate) retry: RetryPolicy,
    pub(crate) asynchronous: bool,
    pub(crate) stop: Stop,
    pub(crate) paused: Arc<AtomicBool>,
    /// Bounds the connections our own short statements use in this process.
    pub(crate) statements: Arc<Semaphore>,
}

impl Consumer {
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }
}

/// What is remembered of a partition between turns.
pub(crate) struct PartitionState {
    /// How many messages to claim: fewer after a failure, doubling with success.
    pub(crate) limit: u32,
    /// Done in memory, not yet known to be in the database.
    pub(crate) unsaved: Option<Ack>,
    /// Failed batches in a row.
    failures: u32,
}

impl PartitionState {
    pub(crate) fn new(batch_size: u32) -> Self {
        Self {
            limit: batch_size,
            unsaved: None,
            failures: 0,
        }
    }

    pub(crate) fn succeeded(&mut self, batch_size: u32) {
        self.failures = 0;
        self.limit = self.limit.saturating_mul(2).min(batch_size);
    }

    /// A batch failed after so many messages: the next is no larger than that.
    pub(crate) fn failed_after(&mut self, succeeded: usize, threshold: u32) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= threshold {
            let succeeded = u32::try_from(succeeded).unwrap_or(u32::MAX);
            self.limit = succeeded.clamp(1, self.limit.max(1));
        }
    }
}

/// What to do with the partition next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing to do; a signal or the reconciler wakes it.
    Rest,
    /// There may be more; others first.
    Again,
    /// A message that failed is due then; nothing before.
    Later(Duration),
    /// Somebody else holds the lease.
    Busy,
}

/// A claim to work on.
pub(crate) struct Claim {
    pub(crate) partition: u32,
    pub(crate) partition_id: i64,
    pub(crate) epoch: i64,
    pub(crate) clock: LeaseClock,
    /// Up to where messages go one at a time, after a claim that died.
    pub(crate) recovering: Option<i64>,
    /// Attempts of the one message, this one included.
    pub(crate) charged: Option<i32>,
    /// Messages for this consumer.
    pub(crate) messages: Vec<OutboxMessage>,
    /// The last number claimed, passed-over messages included.
    last_seq: i64,
}

impl Claim {
    /// The place in the partition once `count` messages are done.
    pub(crate) fn processed_after(&self, count: usize) -> i64 {
        self.messages
            .get(count)
            .map_or(self.last_seq, |next| next.sequence() - 1)
    }

    pub(crate) fn ack(&self, count: usize) -> Ack {
        let processed = self.processed_after(count);
        Ack {
            epoch: self.epoch,
            processed,
            claimed: self.recovering.unwrap_or(processed).max(processed),
            forget_attempts: self.charged.is_some(),
        }
    }
}

/// How a claim ended for the turn that made it.
pub(crate) enum Worked {
    /// All done; to be acknowledged with the next claim.
    Done(Ack),
    /// All done and acknowledged, and this is the next claim.
    Chained(Claimed, LeaseClock),
    /// Settled; the lease is given back.
    Settled(Next),
}

/// Works on a partition for one turn.
pub(crate) async fn turn(
    consumer: &Consumer,
    partition: u32,
    state: &mut PartitionState,
) -> Result<Next, DbErr> {
    let partition_id = consumer.queue_id | i64::from(partition);
    let mut chained = None;
    for batch in 0.. {
        let stop = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
        let last = batch >= BATCHES_PER_TURN || stop;
        let (claimed, clock) = match chained.take() {
            Some(claim) => claim,
            None if last && state.unsaved.is_none() => return Ok(Next::Again),
            None => {
                let limit = if last { 0 } else { state.limit };
                claim(consumer, partition_id, state, limit).await?
            }
        };
        if !claimed.free {
            return Ok(Next::Busy);
        }
        if claimed.rows.is_empty() {
            return Ok(match claimed.due_in {
                Some(due_in) if due_in > 0 => {
                    Next::Later(Duration::from_micros(due_in.unsigned_abs()))
                }
                _ if last => Next::Again,
                _ => Next::Rest,
            });
        }
        let claim = open(consumer, partition, claimed, clock);
        let worked = if exhausted(consumer, &claim) {
            bury_exhausted(consumer, &claim).await?
        } else {
            match &consumer.handler {
                Handler::LeasedEach(_) | Handler::LeasedBatch(_) => {
                    leased::work(consumer, state, claim).await?
                }
                Handler::TransactionalEach(_) | Handler::TransactionalBatch(_) => {
                    transactional::work(consumer, state, claim, last).await?
                }
            }
        };
        match worked {
            Worked::Done(ack) => state.unsaved = Some(ack),
            Worked::Chained(claimed, clock) => chained = Some((claimed, clock)),
            Worked::Settled(Next::Again) if !last => {}
            Worked::Settled(next) => return Ok(next),
        }
    }
    Ok(Next::Again)
}

/// Acknowledges what is unsaved and claims up to `limit` messages.
async fn claim(
    consumer: &Consumer,
    partition_id: i64,
    state: &mut PartitionState,
    limit: u32,
) -> Result<(Claimed, LeaseClock), DbErr> {
    let _permit = consumer.statements.acquire().await;
    let clock = LeaseClock::start(consumer.lease);
    let saving = state.unsaved.is_some();
    let request = ClaimRequest {
        partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit,
        ack: state.unsaved.take(),
        asynchronous: consumer.asynchronous,
    };
    match cursor::claim(&consumer.db, &request).await {
        Ok(claimed) => {
            if saving && !claimed.acked {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = partition_id & 0x3f,
                    consumer = consumer.name,
                    "lost the lease; what was done will be delivered again"
                );
            }
            Ok((claimed, clock))
        }
        Err(error) => {
            // Whether it was saved is unknown; saying it again does no harm.
            state.unsaved = request.ack;
            Err(error)
        }
    }
}

/// Turns rows into messages, leaving out what is not for this consumer.
pub(crate) fn open(
    consumer: &Consumer,
    partition: u32,
    claimed: Claimed,
    clock: LeaseClock,
) -> Claim {
    let attempts = claimed.charged.map_or(0, |n| n.unsigned_abs() - 1);
    let mut messages = Vec::with_capacity(claimed.rows.len());
    let last_seq = claimed.rows.last().map_or(0, |row| row.seq);
    for mut row in claimed.rows {
        match row.body.take() {
            Some(body) if body.target.as_ref().is_none_or(|t| *t == consumer.name) => {
                let queue = &consumer.queue;
                messages.push(OutboxMessage::new(queue, partition, &row, body, attempts));
            }
            Some(_) => {}
            None => tracing::error!(
                queue = &*consumer.queue,
                partition,
                id = row.id,
                "a message has no body any more; passing over it"
            ),
        }
    }
    Claim {
        partition,
        partition_id: consumer.queue_id | i64::from(partition),
        epoch: claimed.epoch,
        clock,
        recovering: claimed.recovering,
        charged: claimed.charged,
        messages,
        last_seq,
    }
}

/// Whether the one message was tried often enough although nothing came back.
fn exhausted(consumer: &Consumer, claim: &Claim) -> bool {
    !claim.messages.is_empty()
        && claim
            .charged
            .is_some_and(|attempts| attempts.unsigned_abs() > consumer.retry.max_attempts)
}

async fn bury_exhausted(consumer: &Consumer, claim: &Claim) -> Result<Worked, DbErr> {
    let reason = "its handler never returned: the process died or lost its lease each time";
    // The attempt charged with this claim was not made.
    let attempts = claim.charged.unwrap_or(1) - 1;
    let burial = burial(claim, 0, attempts, reason.to_owned());
    log_burial(consumer, claim, &burial);
    settle(consumer, claim, 1, None, vec![burial]).await?;
    Ok(Worked::Settled(Next::Again))
}

/// Writes how a claim ended that did not end well: `done` messages are done
/// (some of them rejected), the next one failed. An attempt that is the last
/// buries the message.
pub(crate) async fn settle_failure(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
    failed: HandlerResult,
) -> Result<Worked, DbErr> {
    let attempts = claim.charged.unwrap_or(1);
    let mut burials: Vec<Burial> = rejected
        .into_iter()
        .map(|(index, reason)| burial(claim, index, attempts, reason))
        .collect();
    let mut failure = None;
    let mut done = done;
    let mut next = Next::Again;
    if let Some(message) = claim.messages.get(done) {
        let spent = attempts.unsigned_abs();
        let outcome = match failed {
            HandlerResult::Success => None,
            HandlerResult::Reject { reason } => Some((reason, None)),
            HandlerResult::Retry { reason } => Some((reason, Some(consumer.retry.delay(spent)))),
            HandlerResult::RetryAfter { reason, delay } => Some((reason, Some(delay))),
        };
        match outcome {
            None => {}
            Some((reason, Some(delay))) if spent < consumer.retry.max_attempts => {
                tracing::warn!(
                    queue = &*consumer.queue, partition = claim.partition, consumer = consumer.name,
                    event = message.event_type(), id = message.id().get(), attempt = spent,
                    retry_in = ?delay, reason = bounded(&reason), "a message failed"
                );
                next = Next::Later(delay);
                failure = Some(Failure {
                    seq: message.sequence(),
                    attempts,
                    delay,
                    reason: Some(bounded(&reason).to_owned()),
                });
            }
            Some((reason, _)) => {
                burials.push(burial(claim, done, attempts, reason));
                done += 1;
            }
        }
    }
    for burial in &burials {
        tracing::error!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            id = burial.id,
            attempts = burial.attempts,
            reason = burial.reason,
            "a message goes to the dead letters"
        );
    }
    settle(consumer, claim, done, failure, burials).await?;
    Ok(Worked::Settled(next))
}

/// Gives a claim back unfinished, as a stop does: nothing counts.
pub(crate) async fn settle_stopped(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    rejected: Vec<(usize, String)>,
) -> Result<Worked, DbErr> {
    let burials = rejected
        .into_iter()
        .map(|(index, reason)| burial(claim, index, claim.charged.unwrap_or(1), reason))
        .collect();
    // The charge made at the claim is taken back.
    let uncharged = match (claim.charged, claim.messages.get(done)) {
        (Some(attempts), Some(message)) => Some(Failure {
            seq: message.sequence(),
            attempts: attempts - 1,
            delay: Duration::ZERO,
            reason: None,
        }),
        _ => None,
    };
    settle(consumer, claim, done, uncharged, burials).await?;
    Ok(Worked::Settled(Next::Again))
}

/// Keeps trying while the lease may still be ours: what is not written down is
/// done again.
async fn settle(
    consumer: &Consumer,
    claim: &Claim,
    done: usize,
    failure: Option<Failure>,
    burials: Vec<Burial>,
) -> Result<(), DbErr> {
    let ack = claim.ack(done);
    let settlement = Settlement {
        queue: &consumer.queue,
        partition_id: claim.partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        epoch: claim.epoch,
        processed: ack.processed,
        claimed: ack.claimed,
        failure,
        burials,
    };
    let mut pause = Duration::from_millis(5);
    loop {
        let permit = consumer.statements.acquire().await;
        let settled = cursor::settle(&consumer.db, &settlement).await;
        drop(permit);
        match settled {
            Ok(true) => return Ok(()),
            Ok(false) => {
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = claim.partition,
                    consumer = consumer.name,
                    "lost the lease; nothing was written"
                );
                return Ok(());
            }
            Err(error) if Instant::now() + pause < claim.clock.over_at() => {
                tracing::debug!(%error, "settling failed, trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Err(error) => return Err(error),
        }
    }
}

fn log_burial(consumer: &Consumer, claim: &Claim, burial: &Burial) {
    tracing::error!(
        queue = &*consumer.queue,
        partition = claim.partition,
        consumer = consumer.name,
        id = burial.id,
        attempts = burial.attempts,
        reason = burial.reason,
        "a message goes to the dead letters"
    );
}

fn burial(claim: &Claim, index: usize, attempts: i32, reason: String) -> Burial {
    let message = &claim.messages[index];
    Burial {
        seq: message.sequence(),
        id: message.id().get(),
        attempts,
        reason: bounded(&reason).to_owned(),
    }
}

fn bounded(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(MAX_REASON)]
}
