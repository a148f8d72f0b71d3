//! A handler that says when it begins and waits until the test lets it go on.

use super::super::*;
use outbox_runtime::TransactionalMessageHandler;
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// What a waiting handler does about cancellation.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OnCancel {
    /// Nothing: it waits on, until it is dropped.
    Ignore,
    /// It blocks its thread: it cannot even be dropped.
    Block,
    /// It gives up and asks for another try.
    GiveUp,
    /// It fails in its first attempt, and ignores it in others.
    FailOnce,
}

/// Waits at a gate with every message; as a transactional handler it then
/// writes into the table `ledger`.
#[derive(Clone)]
pub(crate) struct Gated {
    pub(crate) seen: Seen,
    pub(crate) attempts: Arc<Mutex<Vec<u32>>>,
    on_cancel: OnCancel,
    gate: Arc<Semaphore>,
    open: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    dropped: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

/// Counts futures that did not come to their end.
struct Unfinished(Arc<AtomicUsize>, bool);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Gated {
    pub(crate) fn new(on_cancel: OnCancel) -> Self {
        Self {
            seen: Seen::default(),
            attempts: Arc::default(),
            on_cancel,
            gate: Arc::new(Semaphore::new(0)),
            open: Arc::default(),
            asked: Arc::default(),
            dropped: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Lets one waiting message through.
    pub(crate) fn let_one_through(&self) {
        self.gate.add_permits(1);
    }

    /// Lets every message through from now on.
    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Waits until so many messages were given to it.
    pub(crate) async fn entered(&self, count: usize) {
        self.seen.reaches(count).await;
    }

    /// Waits until it was asked to come to an end.
    pub(crate) async fn asked(&self) {
        eventually("cancellation", async || self.asked.load(Ordering::SeqCst)).await;
    }

    /// How many of its messages came and neither ended nor were dropped.
    pub(crate) fn waiting(&self) -> usize {
        self.seen.count() - self.ended.load(Ordering::SeqCst) - self.dropped()
    }

    /// How many of its futures were dropped before their end.
    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    async fn pass(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        let mut unfinished = Unfinished(self.dropped.clone(), true);
        self.attempts.lock().unwrap().push(message.attempts());
        self.seen.add(message);
        let result = match self.on_cancel {
            OnCancel::FailOnce if message.attempts() == 0 => HandlerResult::retry("the first time"),
            OnCancel::Ignore | OnCancel::FailOnce => {
                let asked = tokio::select! {
                    biased;
                    () = ctx.cancellation().cancelled() => true,
                    () = self.enter() => false,
                };
                if asked {
                    self.asked.store(true, Ordering::SeqCst);
                    self.enter().await;
                }
                HandlerResult::Success
            }
            OnCancel::Block => {
                tokio::task::block_in_place(|| {
                    tokio::runtime::Handle::current().block_on(self.enter());
                });
                HandlerResult::Success
            }
            OnCancel::GiveUp => tokio::select! {
                () = self.enter() => HandlerResult::Success,
                () = ctx.cancellation().cancelled() => HandlerResult::retry("cancelled"),
            },
        };
        unfinished.1 = false;
        self.ended.fetch_add(1, Ordering::SeqCst);
        result
    }

    async fn enter(&self) {
        if !self.open.load(Ordering::SeqCst) {
            self.gate.acquire().await.expect("the gate").forget();
        }
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Gated {
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        self.pass(message, ctx).await
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Gated {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult {
        let note = String::from_utf8_lossy(message.payload()).into_owned();
        let result = self.pass(message, ctx).await;
        let write = format!("INSERT INTO ledger (consumer, note) VALUES ('gated', '{note}')");
        match tx.execute_unprepared(&write).await {
            Ok(_) => result,
            Err(error) => HandlerResult::retry(error),
        }
    }
}
