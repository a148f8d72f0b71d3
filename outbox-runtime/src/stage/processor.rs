//! One partition of one consumer: claim, hand over to the mode, go on.

use super::guard::{LeaseClock, Stop};
use super::opening::{Opened, open};
use super::settlement::{bury_exhausted, exhausted, settle_failure, settle_stopped};
use super::{leased, transactional};
use crate::handler::{
    HandlerResult, LeasedHandler, LeasedMessageHandler, OutboxMessage, TransactionalHandler,
    TransactionalMessageHandler,
};
use crate::state::States;
use crate::store::cursor::{self, Ack, ClaimRequest, Claimed};
use crate::store::registration::registered_types;
use crate::tuning::{LeaseConfig, Pace, RetryPolicy, WorkerTuning};
use sea_orm::{DatabaseConnection, DbErr};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// How many batches a partition may have before others have their turn.
const BATCHES_PER_TURN: u32 = 16;
/// How long a partition is left to a process that can handle its next message.
const FOREIGN_PAUSE: Duration = Duration::from_secs(1);

/// A consumer's handler.
#[derive(Clone)]
pub(crate) enum Handler {
    LeasedEach(Arc<dyn LeasedMessageHandler>),
    LeasedBatch(Arc<dyn LeasedHandler>),
    TransactionalEach(Arc<dyn TransactionalMessageHandler>),
    TransactionalBatch(Arc<dyn TransactionalHandler>),
}

impl Handler {
    pub(crate) fn is_transactional(&self) -> bool {
        matches!(
            self,
            Self::TransactionalEach(_) | Self::TransactionalBatch(_)
        )
    }

    /// The mode as the database knows it.
    pub(crate) fn mode(&self) -> &'static str {
        if self.is_transactional() {
            "transactional"
        } else {
            "leased"
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
    /// The event types it handles; `None` for all.
    pub(crate) event_types: Option<BTreeSet<String>>,
    /// The event types of its queue that this binary knows.
    pub(crate) known_types: BTreeSet<String>,
    pub(crate) states: States,
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
    pub(crate) fn handles(&self, event_type: &str) -> bool {
        let types = self.event_types.as_ref();
        types.is_none_or(|types| types.contains(event_type))
    }

    pub(crate) fn handles_all(&self, event_types: &BTreeSet<String>) -> bool {
        let types = self.event_types.as_ref();
        types.is_none_or(|types| types.is_superset(event_types))
    }

    /// Its types as they are registered.
    pub(crate) fn registered_types(&self) -> BTreeSet<String> {
        registered_types(self.event_types.as_ref())
    }

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

    /// A batch took too long for its lease.
    pub(crate) fn shrink_to(&mut self, messages: usize) {
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.limit = messages.clamp(1, self.limit.max(1));
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
    pub(super) last_seq: i64,
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
    let mut pace = Pace::new(&consumer.tuning);
    for batch in 0.. {
        let stop = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
        // Only transactions share permits.
        let enough = batch >= BATCHES_PER_TURN && consumer.handler.is_transactional();
        let last = enough || stop;
        if batch > 0 && !last {
            tokio::time::sleep(pace.next()).await;
        }
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
        let worked = match open(consumer, partition, claimed, clock).await? {
            Opened::Ours(claim) if exhausted(consumer, &claim) => {
                bury_exhausted(consumer, &claim).await?
            }
            Opened::Foreign { claim, elsewhere } => {
                leave_or_fail(consumer, &claim, elsewhere).await?
            }
            Opened::Ours(claim) if consumer.handler.is_transactional() => {
                transactional::work(consumer, state, claim, last).await?
            }
            Opened::Ours(claim) => leased::work(consumer, state, claim).await?,
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

/// A message of a type this process has no handler for: left to a process that
/// has one, uncharged, while there is any; else it fails like any other.
async fn leave_or_fail(
    consumer: &Consumer,
    claim: &Claim,
    elsewhere: bool,
) -> Result<Worked, DbErr> {
    let event_type = claim.messages[0].event_type();
    if elsewhere {
        tracing::debug!(
            queue = &*consumer.queue,
            partition = claim.partition,
            consumer = consumer.name,
            event = event_type,
            "left to another process, which has a handler for it"
        );
        settle_stopped(consumer, claim, 0, Vec::new()).await?;
        let pause = FOREIGN_PAUSE.mul_f64(0.5 + fastrand::f64());
        return Ok(Worked::Settled(Next::Later(pause)));
    }
    let reason = format!(
        "consumer `{}` has no handler for event type `{event_type}`",
        consumer.name
    );
    let failed = HandlerResult::Retry { reason };
    settle_failure(consumer, claim, 0, Vec::new(), failed).await
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
