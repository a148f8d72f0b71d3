//! One partition of one consumer: claim, hand over to the mode, go on.

use super::claim::{Claim, ClaimAnswer, ClaimEnd};
use super::consumer::Consumer;
use super::guard::LeaseClock;
use super::opening::{OpenedClaim, open};
use super::settlement::{bury_exhausted, exhausted, give_back, settle_failure};
use super::wakes::Wakes;
use super::{leased, quarantine, transaction, transactional};
use crate::config::Pace;
use crate::database::claims::QuickClaim;
use crate::database::cursor::{self, Ack, ClaimRequest, Place, Refuse};
use crate::handler::HandlerResult;
use crate::queue::PartitionId;
use sea_orm::{DatabaseTransaction, DbErr};
use std::time::{Duration, Instant};

/// While others may be waiting for its permit, a partition has so many batches, or
/// begins none after so long, before it goes to the end of the line.
const BATCHES_PER_TURN: u32 = 16;
const LONG_TURN: Duration = Duration::from_secs(1);
/// After the last message there is, its acknowledgement waits so long for the next
/// one: under load that is half of all claims.
const LINGER: Duration = Duration::from_millis(5);
/// How long a partition is left to a process that can handle its next message.
pub(super) const FOREIGN_PAUSE: Duration = Duration::from_secs(1);

/// How long a suspect waits before it asks again whether it may go on alone.
pub(super) const SOLITUDE_PAUSE: Duration = Duration::from_millis(20);

/// What is remembered of a partition between turns.
pub(crate) struct PartitionState {
    /// How many messages to claim: fewer after a failure, doubling with success.
    pub(crate) limit: u32,
    /// Done in memory, not yet known to be in the database.
    pub(crate) unsaved: Option<Ack>,
    /// Where the cursor was last, for engines that find it sooner by that.
    pub(crate) place: Option<Place>,
    /// Failed batches in a row.
    failures: u32,
    /// Whether the next message must be alone among those suspected of killing
    /// the process.
    suspected: bool,
    /// Transactions in a row whose commit lost a race, of messages that are still there.
    pub(super) lost_races: u32,
}

impl PartitionState {
    pub(crate) fn new(batch_size: u32) -> Self {
        Self {
            limit: batch_size,
            unsaved: None,
            place: None,
            failures: 0,
            suspected: false,
            lost_races: 0,
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

/// Works on a partition for one turn. Without `wakes` nothing is waited for.
pub(crate) async fn turn(
    consumer: &Consumer,
    partition: u32,
    state: &mut PartitionState,
    wakes: Option<&Wakes>,
) -> Result<Next, DbErr> {
    let partition_id = consumer.queue_id.partition(partition);
    let mut chained = None;
    // Kept until what was done in solitude is acknowledged, with the next claim.
    let mut alone = None;
    let mut pace = Pace::new(&consumer.tuning);
    let began = Instant::now();
    // Once it is, it stays so: what was claimed last says nothing of what is left.
    let mut last = false;
    let mut more = true;
    for batch in 0.. {
        let stop = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
        let long = batch >= BATCHES_PER_TURN || (batch > 0 && began.elapsed() >= LONG_TURN);
        // Its connection is one of the pool's: others may be waiting for that too.
        let held_long = consumer.is_transactional() && began.elapsed() >= LONG_TURN;
        last |= stop || held_long || (long && consumer.is_crowded());
        if batch > 0 && !last {
            tokio::time::sleep(pace.next()).await;
        }
        if let Some(wakes) = wakes {
            if !more && !last && state.unsaved.is_some() && !consumer.is_crowded() {
                tokio::select! {
                    () = wakes.wait(LINGER) => {}
                    () = consumer.stop.stopping.cancelled() => {}
                }
            }
            // A chained claim has looked already: a signal since then is not heard yet.
            if chained.is_none() {
                wakes.heard();
            }
        }
        let found = match chained.take() {
            Some(found) => found,
            None if last && state.unsaved.is_none() => return Ok(next_turn(&mut pace)),
            None => {
                if state.suspected && state.unsaved.is_none() {
                    alone = alone.or_else(|| consumer.solitude.try_acquire().ok());
                    if alone.is_none() {
                        return Ok(Next::Later(SOLITUDE_PAUSE));
                    }
                }
                let limit = if last { 0 } else { state.limit };
                let refuse = match alone {
                    Some(_) => Refuse::None,
                    None => consumer.refuse(),
                };
                let found = claim(consumer, partition_id, state, limit, refuse).await?;
                more = found.claimed.cut || found.claimed.rows.len() >= limit as usize;
                if found.claimed.cut {
                    // What is read and not kept is read again.
                    state.shrink_to(found.claimed.rows.len());
                }
                found
            }
        };
        let ClaimAnswer {
            mut claimed,
            clock,
            tx,
        } = found;
        if !claimed.free {
            return Ok(Next::Busy);
        }
        state.place = claimed.place.take();
        let refused = claimed.recovering.is_some() && alone.is_none();
        state.suspected = false;
        if claimed.rows.is_empty() {
            return Ok(match claimed.due_in {
                Some(due_in) if due_in > 0 => {
                    Next::Later(Duration::from_micros(due_in.unsigned_abs()))
                }
                _ if refused && !last => {
                    state.suspected = true;
                    Next::Again
                }
                _ if last => next_turn(&mut pace),
                _ => Next::Rest,
            });
        }
        let attempts = claimed.attempts.unwrap_or_default();
        if claimed.recovering.is_none() || !consumer.needs_solitude(attempts) {
            alone = None;
        }
        // On the connection in hand, if there is one: it may be the last of the pool.
        let opened = match &tx {
            Some(tx) => open(consumer, tx, partition, claimed, clock).await?,
            None => open(consumer, &consumer.db, partition, claimed, clock).await?,
        };
        let worked = match opened {
            OpenedClaim::Ours(claim) if exhausted(consumer, &claim) => {
                release_any(tx).await;
                state.lost_races = 0;
                bury_exhausted(consumer, &claim).await?
            }
            OpenedClaim::Foreign { claim, elsewhere } => {
                leave_or_fail(consumer, &claim, elsewhere, tx).await?
            }
            // The database answered so late that a handler might be dropped for want of time.
            OpenedClaim::Ours(claim) if clock.is_half_over() => {
                give_back_late(consumer, &claim, tx).await?
            }
            OpenedClaim::Ours(claim) if consumer.is_transactional() => {
                transactional::work(consumer, state, claim, tx, last).await?
            }
            OpenedClaim::Ours(claim) => leased::work(consumer, state, claim).await?,
        };
        match worked {
            ClaimEnd::Done(ack) => state.unsaved = Some(ack),
            ClaimEnd::Chained(found) => chained = Some(found),
            ClaimEnd::Settled(Next::Again) if !last => {}
            ClaimEnd::Settled(next) => return Ok(next),
        }
    }
    Ok(Next::Again)
}

/// Gives back a claim that was answered when half of its time was over. Nobody is charged.
pub(super) async fn give_back_late(
    consumer: &Consumer,
    claim: &Claim,
    tx: Option<DatabaseTransaction>,
) -> Result<ClaimEnd, DbErr> {
    tracing::warn!(
        queue = &*consumer.queue,
        partition = claim.partition,
        consumer = consumer.name,
        lease = ?consumer.lease.duration,
        "the database took half of a lease to answer the claim; it is given back"
    );
    give_back(consumer, claim, tx).await
}

/// Gives back the connection of handlers that are not going to run.
async fn release_any(tx: Option<DatabaseTransaction>) {
    if let Some(tx) = tx {
        transaction::release(tx).await;
    }
}

/// The pause that is due before the next batch is made without the permit.
fn next_turn(pace: &mut Pace) -> Next {
    match pace.next() {
        Duration::ZERO => Next::Again,
        pause => Next::Later(pause),
    }
}

/// A message of a type this process has no handler for: left to a process that
/// has one, uncharged, while there is any; else it fails like any other.
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
        let pause = FOREIGN_PAUSE.mul_f64(0.5 + fastrand::f64());
        return Ok(ClaimEnd::Settled(Next::Later(pause)));
    }
    release_any(tx).await;
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
    partition_id: PartitionId,
    state: &mut PartitionState,
    limit: u32,
    refuse: Refuse,
) -> Result<ClaimAnswer, DbErr> {
    let saving = state.unsaved.is_some();
    let request = ClaimRequest {
        partition_id,
        consumer: &consumer.name,
        owner: &consumer.owner,
        lease: consumer.lease.duration,
        limit,
        most_bytes: consumer.most_bytes(),
        ack: state.unsaved.take(),
        place: state.place.as_ref(),
        refuse,
        asynchronous: consumer.asynchronous,
    };
    if consumer.is_transactional() {
        return transaction::claim(consumer, request).await;
    }
    let found = |claimed, clock| ClaimAnswer {
        claimed,
        clock,
        tx: None,
    };
    if let Some(claims) = &consumer.claims
        && let Some(quick) = QuickClaim::of(&request)
        && let Some((claimed, began)) = claims.claim(quick).await
    {
        return Ok(found(claimed, LeaseClock::since(began, consumer.lease)));
    }
    let permit = consumer.statements.acquire().await;
    let clock = LeaseClock::start(consumer.lease);
    match cursor::claim(&*consumer.kept, &request).await {
        Ok(mut claimed) => {
            if saving && !claimed.acked {
                if let Some(seq) = request.ack.as_ref().and_then(|ack| ack.charged) {
                    drop(permit);
                    quarantine::take_back(consumer, partition_id, seq).await;
                    // What was claimed anew was read before that.
                    let again = claimed.rows.first().is_some_and(|row| row.seq == seq);
                    if let Some(attempts) = claimed.attempts.as_mut().filter(|_| again) {
                        attempts.deaths -= 1;
                    }
                }
                tracing::warn!(
                    queue = &*consumer.queue,
                    partition = partition_id.number(),
                    consumer = consumer.name,
                    "lost the lease; what was done will be delivered again"
                );
            }
            Ok(found(claimed, clock))
        }
        Err(error) => {
            // Whether it was saved is unknown; saying it again does no harm.
            state.unsaved = request.ack;
            Err(error)
        }
    }
}
