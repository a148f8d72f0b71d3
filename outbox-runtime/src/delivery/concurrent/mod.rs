//! At least once, many keys of a partition at a time, each key in order.
//!
//! The lease is held and renewed as long as there is something to do. Messages are
//! known up to a window ahead of the cursor, and run as soon as their key is free;
//! the cursor moves over what is done from its place on. What is done beyond is
//! remembered here, and written down when the lease is given back; after a crash it
//! is delivered again. A message that fails waits its backoff, and with it its key;
//! the others go on until the window is full.
//!
//! Nothing runs before the cursor says that it is claimed. After a claim that died,
//! what it had claimed runs alone, one message at a time, each charged before.

mod ending;
mod reading;
mod starting;

use super::consumer::Consumer;
use super::guard::{HandlerEnd, LeaseClock, Stop};
use super::lanes::Lanes;
use super::processor::Next;
use crate::config::backoff;
use crate::database::attempts::{AttemptNote, Attempts};
use crate::database::settlement::Burial;
use crate::database::window::{self, Acquired, Held};
use crate::handler::{HandlerResult, OutboxMessage};
use crate::queue::PartitionId;
use sea_orm::DbErr;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long progress may be unwritten while other things go on.
const SAVE_AFTER: Duration = Duration::from_millis(100);
/// How often pauses and the like are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How a partition that is worked on for long talks to the engine.
#[derive(Clone, Copy)]
pub(crate) struct Signals<'a> {
    /// There may be new messages.
    pub(crate) woken: &'a Notify,
    /// There may be rows to delete.
    pub(crate) progress: &'a Notify,
    /// Whether the lease is given back as soon as nothing is due, instead of being
    /// kept for what is due later.
    pub(crate) leave: bool,
}

/// Works on a partition until everything known is done.
pub(crate) async fn turn(
    consumer: &Consumer,
    partition: u32,
    signals: Signals<'_>,
) -> Result<Next, DbErr> {
    let partition_id = consumer.queue_id.partition(partition);
    let clock = LeaseClock::start(consumer.lease);
    let permit = consumer.statements.acquire().await;
    let acquired = window::acquire(
        &consumer.db,
        partition_id,
        &consumer.name,
        &consumer.owner,
        consumer.lease.duration,
    )
    .await?;
    drop(permit);
    match acquired {
        Acquired::Busy => Ok(Next::Busy),
        Acquired::Nothing => Ok(Next::Rest),
        Acquired::Held(held) => {
            let mut session = Session::new(consumer, partition, &held, clock);
            session.run(signals).await
        }
    }
}

/// A partition while this process holds its lease.
struct Session<'a> {
    consumer: &'a Consumer,
    partition: u32,
    epoch: i64,
    clock: LeaseClock,
    lanes: Lanes<WindowMessage>,
    tasks: JoinSet<FinishedTask>,
    /// Cancelled when the lease is lost.
    stop: Stop,
    /// Cancelled a little later, when what still runs is dropped.
    lost: CancellationToken,
    /// Up to here messages run alone and charged: a claim of them died.
    suspects: i64,
    /// Up to here the cursor says that messages are claimed.
    claimed: i64,
    /// What the database does not know yet.
    notes: Notes,
    /// Whether there may be records of attempts.
    recorded: bool,
    saved: i64,
    saved_at: Instant,
    /// The last message read, number and id.
    read: (i64, i64),
    /// Whether there may be messages that are not known yet.
    more: bool,
    /// The next message is not ours to handle, nor to skip.
    foreign: bool,
    window_was_full: bool,
    /// A task is gone, nobody knows which.
    broken: bool,
    spare: Option<OwnedSemaphorePermit>,
    /// Whether a message is ready that has no permit.
    wants_permit: bool,
    /// A suspect that is charged and has not been started.
    unstarted: Option<i64>,
    /// A suspect whose charge is in the database.
    charged: Option<i64>,
    /// Whether its handler did not return in time.
    overran: bool,
    /// Held while a suspect runs and until that is written down.
    alone: Option<OwnedSemaphorePermit>,
    errors: u32,
    retry_at: Option<Instant>,
}

struct WindowMessage {
    message: OutboxMessage,
    /// What is on record, without a charge for the attempt under way.
    attempts: Attempts,
    /// Whether it is charged with a death that it has not died yet.
    charged: bool,
}

#[derive(Default)]
struct Notes {
    attempts: Vec<AttemptNote>,
    burials: Vec<Burial>,
    buried: Vec<OutboxMessage>,
    done: Vec<i64>,
}

impl Notes {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty() && self.burials.is_empty() && self.done.is_empty()
    }
}

struct FinishedTask {
    seq: i64,
    ended: HandlerEnd<HandlerResult>,
    /// Whether the handler did not return in time.
    overran: bool,
    rejected: Option<String>,
}

impl<'a> Session<'a> {
    fn new(consumer: &'a Consumer, partition: u32, held: &Held, clock: LeaseClock) -> Self {
        let stop = Stop {
            stopping: consumer.stop.stopping.child_token(),
            ..consumer.stop.clone()
        };
        Self {
            consumer,
            partition,
            epoch: held.epoch,
            clock,
            lanes: Lanes::new(held.processed),
            tasks: JoinSet::new(),
            stop,
            lost: CancellationToken::new(),
            suspects: held.claimed,
            claimed: held.claimed,
            notes: Notes::default(),
            recorded: false,
            saved: held.processed,
            saved_at: Instant::now(),
            read: (held.processed, 0),
            more: true,
            foreign: false,
            window_was_full: false,
            broken: false,
            spare: None,
            wants_permit: false,
            unstarted: None,
            charged: None,
            overran: false,
            alone: None,
            errors: 0,
            retry_at: None,
        }
    }

    async fn run(&mut self, signals: Signals<'_>) -> Result<Next, DbErr> {
        let consumer = self.consumer;
        loop {
            let drop_at = self.clock.drop_at();
            if self.broken || self.is_late() {
                return Ok(self.lose(drop_at).await);
            }
            let asked = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
            let leave = signals.leave && !self.wants_more();
            let closing = asked || (self.foreign || leave) && self.is_idle();
            if closing && self.tasks.is_empty() {
                return self.close(signals).await;
            }
            if self.retry_at.is_none_or(|at| at <= Instant::now()) {
                let (kept, late) = self.bookkeep_in_time(closing, signals).await;
                match kept {
                    Ok(false) => return Ok(self.lose(Instant::now()).await),
                    Ok(true) if late => return self.leave(drop_at, signals).await,
                    Err(_) if late => return Ok(self.lose(drop_at).await),
                    Ok(true) => self.errors = 0,
                    Err(error) => self.trouble(&error),
                }
            }
            if !closing && self.lanes.all_done() && !self.more && self.tasks.is_empty() {
                return self.close(signals).await;
            }
            self.wait(closing, signals).await;
        }
    }

    /// Whether the lease is so nearly over that nobody may be at work any more.
    fn is_late(&self) -> bool {
        self.clock.is_late()
    }

    /// Whether nothing runs and nothing could.
    fn is_idle(&mut self) -> bool {
        self.tasks.is_empty() && self.lanes.next_ready(Instant::now()).is_none()
    }

    /// Also says whether it took longer than the lease: a statement that hangs keeps nobody
    /// at work for longer than that. The statement itself comes to its end: on MySQL one
    /// that is dropped while the server prepares it takes its connection along for good.
    async fn bookkeep_in_time(
        &mut self,
        closing: bool,
        signals: Signals<'_>,
    ) -> (Result<bool, DbErr>, bool) {
        let (stopping, lost) = (self.stop.stopping.clone(), self.lost.clone());
        let clock = self.clock;
        let work = self.bookkeep(closing, signals);
        tokio::pin!(work);
        if let Ok(kept) = tokio::time::timeout_at(clock.cancel_at().into(), &mut work).await {
            return (kept, false);
        }
        stopping.cancel();
        if let Ok(kept) = tokio::time::timeout_at(clock.drop_at().into(), &mut work).await {
            return (kept, true);
        }
        lost.cancel();
        (work.await, true)
    }

    /// What is to be written and read now. False if the lease was lost.
    async fn bookkeep(&mut self, closing: bool, signals: Signals<'_>) -> Result<bool, DbErr> {
        self.retry_at = None;
        if !closing && self.wants_more() {
            self.fetch().await?;
            if self.is_late() {
                // What was read is not claimed any more.
                return Ok(true);
            }
        }
        if self.must_save() && !self.save(false, signals).await? {
            return Ok(false);
        }
        if closing {
            return Ok(true);
        }
        self.start_ready(signals).await
    }

    fn trouble(&mut self, error: &DbErr) {
        let tuning = &self.consumer.tuning;
        let pause = backoff(tuning.retry_base, tuning.retry_max, self.errors, true);
        // Not so long that the lease is lost for that.
        let pause = pause.min(self.consumer.lease.duration / 8);
        self.errors = self.errors.saturating_add(1);
        self.retry_at = Some(Instant::now() + pause.max(Duration::from_millis(1)));
        tracing::warn!(
            queue = &*self.consumer.queue, partition = self.partition,
            consumer = self.consumer.name, %error,
            "a processor's bookkeeping failed; it will be tried again"
        );
    }

    /// Until there is something to do.
    async fn wait(&mut self, closing: bool, signals: Signals<'_>) {
        let now = Instant::now();
        // What is due by now waits for its turn, not for its time.
        self.lanes.next_ready(now);
        let unsaved = self.lanes.processed() > self.saved;
        let save = unsaved.then(|| self.saved_at + SAVE_AFTER);
        let events = match self.retry_at {
            Some(at) => [Some(at), None, None],
            None => [Some(self.clock.renew_at()), save, self.lanes.next_due()],
        };
        let until = events.into_iter().flatten().min();
        let until = until.map_or(now + LOOK_EVERY, |at| at.min(now + LOOK_EVERY));
        let until = until.max(now + Duration::from_millis(1));
        let hungry = !closing && self.retry_at.is_none() && self.wants_more();
        let wants_permit = !closing && self.wants_permit;
        let permits = self.consumer.permits.clone();
        tokio::select! {
            biased;
            Some(finished) = self.tasks.join_next() => {
                self.finished(finished);
                while let Some(finished) = self.tasks.try_join_next() {
                    self.finished(finished);
                }
            }
            () = self.consumer.stop.stopping.cancelled(), if !closing => {}
            () = signals.woken.notified() => self.more = true,
            permit = permits.acquire_owned(), if wants_permit => self.spare = permit.ok(),
            () = std::future::ready(()), if hungry => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }

    fn partition_id(&self) -> PartitionId {
        self.consumer.queue_id.partition(self.partition)
    }
}
