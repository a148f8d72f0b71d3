//! At least once, many keys of a partition at a time, each key in order.
//!
//! A session holds the lease of a partition, and renews it, as long as there is something to do.
//! It knows messages up to a window ahead of the cursor, and starts each as soon as its key is
//! free. The cursor moves over what is done from its place on. The session remembers what is done
//! beyond, and writes it down when it gives the lease back; after a crash it is delivered again. A
//! message that fails waits its backoff, and with it its key. The others go on until the window is
//! full.
//!
//! No handler runs before the cursor says that its message is claimed. Messages of a claim that
//! died are suspects: see [`quarantine`](super::quarantine).
//!
//! `window` reads messages, `starting` starts their handlers, `ending` notes how handlers end and
//! ends the session, `saving` writes. `mod` has the loop around them.

mod ending;
mod lease;
mod saving;
mod starting;
mod window;

use self::lease::SessionLease;
use self::saving::{Unwritten, WrittenCursor};
use self::starting::Permits;
use self::window::Window;
use super::consumer::Consumer;
use super::guard::{HandlerEnd, LeaseClock};
use super::processor::Next;
use super::quarantine::{self, SessionQuarantine};
use crate::config::backoff;
use crate::database::read_ahead::{Acquired, Held, acquire};
use crate::handler::HandlerResult;
use crate::queue::PartitionId;
use sea_orm::DbErr;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// How long progress may stay unwritten while handlers run.
const SAVE_AFTER: Duration = Duration::from_millis(100);
/// How often a session looks whether its queue is paused, at least.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How a session and the services that run it tell each other what happened.
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
    quarantine::pay(consumer, partition_id).await?;
    let clock = LeaseClock::start(consumer.lease);
    let permit = consumer.statements.acquire().await;
    let acquired = acquire(
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
            let mut session = Session::new(consumer, partition, signals, &held, clock);
            session.run().await
        }
    }
}

/// A partition while this process holds its lease.
struct Session<'a> {
    consumer: &'a Consumer,
    partition: u32,
    signals: Signals<'a>,
    lease: SessionLease,
    window: Window,
    /// A task for each handler that runs.
    tasks: JoinSet<FinishedTask>,
    /// Whether a task failed, and with it the number of its message is lost.
    broken: bool,
    cursor: WrittenCursor,
    unwritten: Unwritten,
    permits: Permits,
    quarantine: SessionQuarantine,
    retry: BookkeepingRetry,
}

/// When statements are tried again after an error, or a suspect asks again to be alone.
#[derive(Default)]
struct BookkeepingRetry {
    /// Errors in a row.
    errors: u32,
    /// Nothing is read, written or started before.
    at: Option<Instant>,
}

/// A handler's task that came to its end.
struct FinishedTask {
    seq: i64,
    ended: HandlerEnd<HandlerResult>,
    /// Whether the handler did not return in time.
    overran: bool,
    rejected: Option<String>,
}

impl<'a> Session<'a> {
    fn new(
        consumer: &'a Consumer,
        partition: u32,
        signals: Signals<'a>,
        held: &Held,
        clock: LeaseClock,
    ) -> Self {
        Self {
            consumer,
            partition,
            signals,
            lease: SessionLease::new(consumer, held, clock),
            window: Window::new(held),
            tasks: JoinSet::new(),
            broken: false,
            cursor: WrittenCursor::new(held),
            unwritten: Unwritten::default(),
            permits: Permits::default(),
            quarantine: SessionQuarantine::new(held.claimed),
            retry: BookkeepingRetry::default(),
        }
    }

    /// Works until nothing is left to do, or the lease is lost.
    async fn run(&mut self) -> Result<Next, DbErr> {
        let consumer = self.consumer;
        loop {
            let drop_at = self.lease.clock.drop_at();
            if self.broken || self.lease.is_late() {
                return Ok(self.lose(drop_at).await);
            }
            let asked = consumer.stop.stopping.is_cancelled() || consumer.is_paused();
            let leave = self.signals.leave && !self.wants_more();
            let closing = asked || (self.window.foreign || leave) && self.is_idle();
            if closing && self.tasks.is_empty() {
                return self.close().await;
            }
            if self.retry.at.is_none_or(|at| at <= Instant::now()) {
                let (kept, late) = self.bookkeep_in_time(closing).await;
                match kept {
                    Ok(false) => return Ok(self.lose(Instant::now()).await),
                    Ok(true) if late => return self.leave(drop_at).await,
                    Err(_) if late => return Ok(self.lose(drop_at).await),
                    Ok(true) => self.retry.errors = 0,
                    Err(error) => self.trouble(&error),
                }
            }
            if !closing
                && self.window.lanes.all_done()
                && !self.window.more
                && self.tasks.is_empty()
            {
                return self.close().await;
            }
            self.wait(closing).await;
        }
    }

    /// Whether nothing runs and nothing could.
    fn is_idle(&mut self) -> bool {
        self.tasks.is_empty() && self.window.lanes.next_ready(Instant::now()).is_none()
    }

    /// Also says whether it took longer than the lease: then the handlers are cancelled, and dropped
    /// a little later, however long a statement hangs. The statement itself comes to its end: on
    /// MySQL one that is dropped while the server prepares it takes its connection along for good.
    async fn bookkeep_in_time(&mut self, closing: bool) -> (Result<bool, DbErr>, bool) {
        let (stopping, lost) = (self.lease.stop.stopping.clone(), self.lease.lost.clone());
        let clock = self.lease.clock;
        let work = self.bookkeep(closing);
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

    /// Reads, writes and starts what is due now. False if the lease was lost.
    async fn bookkeep(&mut self, closing: bool) -> Result<bool, DbErr> {
        self.retry.at = None;
        if !closing && self.wants_more() {
            self.fetch().await?;
            if self.lease.is_late() {
                // What was read is not claimed any more.
                return Ok(true);
            }
        }
        if self.must_save() && !self.save(false).await? {
            return Ok(false);
        }
        if closing {
            return Ok(true);
        }
        self.start_ready().await
    }

    /// Decides when the bookkeeping is tried again.
    fn trouble(&mut self, error: &DbErr) {
        let tuning = &self.consumer.tuning;
        let pause = backoff(tuning.retry_base, tuning.retry_max, self.retry.errors, true);
        // A short pause, so that the lease is not lost meanwhile.
        let pause = pause.min(self.consumer.lease.duration / 8);
        self.retry.errors = self.retry.errors.saturating_add(1);
        self.retry.at = Some(Instant::now() + pause.max(Duration::from_millis(1)));
        tracing::warn!(
            queue = &*self.consumer.queue, partition = self.partition,
            consumer = self.consumer.name, %error,
            "a processor's bookkeeping failed; it will be tried again"
        );
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, closing: bool) {
        let now = Instant::now();
        // A message that is due by now waits for its turn, not for a time.
        self.window.lanes.next_ready(now);
        let unsaved = self.window.lanes.processed() > self.cursor.processed;
        let save = unsaved.then(|| self.cursor.written_at + SAVE_AFTER);
        let events = match self.retry.at {
            Some(at) => [Some(at), None, None],
            None => [
                Some(self.lease.clock.renew_at()),
                save,
                self.window.lanes.next_due(),
            ],
        };
        let until = events.into_iter().flatten().min();
        let until = until.map_or(now + LOOK_EVERY, |at| at.min(now + LOOK_EVERY));
        let until = until.max(now + Duration::from_millis(1));
        let hungry = !closing && self.retry.at.is_none() && self.wants_more();
        let wants_permit = !closing && self.permits.wanted;
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
            () = self.signals.woken.notified() => self.window.more = true,
            permit = permits.acquire_owned(), if wants_permit => self.permits.spare = permit.ok(),
            () = std::future::ready(()), if hungry => {}
            () = tokio::time::sleep_until(until.into()) => {}
        }
    }

    fn partition_id(&self) -> PartitionId {
        self.consumer.queue_id.partition(self.partition)
    }
}
