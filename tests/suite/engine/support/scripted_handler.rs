//! A handler that does what a test tells it, as each of the four kinds.

use super::super::*;
use outbox_runtime::{
    Batch, LeasedHandler, OutboxBuilder, QueueBuilder, TransactionalHandler,
    TransactionalMessageHandler,
};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend};
use std::time::{Duration, Instant};

/// What to do with a message.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Act {
    Succeed,
    Retry,
    RetryAfter(Duration),
    Reject,
    /// Run a statement that fails, and say so.
    FailSql,
    /// Run a statement that fails, and say that all is well.
    IgnoreFailedSql,
    /// End its own connection to the server, and say that all is well.
    EndConnection,
    Panic,
}

/// The kinds of handlers; each is a consumer of that name.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Kind {
    LeasedEach,
    LeasedBatch,
    TransactionalEach,
    TransactionalBatch,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self::LeasedEach,
        Self::LeasedBatch,
        Self::TransactionalEach,
        Self::TransactionalBatch,
    ];

    pub(crate) fn consumer(self) -> String {
        format!("{self:?}")
    }

    pub(crate) fn is_transactional(self) -> bool {
        matches!(self, Self::TransactionalEach | Self::TransactionalBatch)
    }
}

/// A message as a handler was given it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) text: String,
    pub(crate) attempts: u32,
    /// How many messages the handler was given with it, itself included.
    pub(crate) batch: usize,
    pub(crate) at: Instant,
}

type Script = dyn Fn(&str, u32) -> Act + Send + Sync;

/// Does what `script` says of a message's text and attempts. As a transactional
/// handler it first writes a row into the table `ledger`.
#[derive(Clone)]
pub(crate) struct Scripted {
    kind: Kind,
    script: Arc<Script>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// Where transactional handlers write; it would have two rows for what is done twice.
pub(crate) async fn create_ledger(db: &TestDb) {
    db.execute("CREATE TABLE ledger (consumer VARCHAR(64) NOT NULL, note VARCHAR(64) NOT NULL)")
        .await;
}

/// What a consumer's ledger says, in alphabetical order.
pub(crate) async fn ledger(db: &TestDb, consumer: &str) -> Vec<String> {
    let sql = format!("SELECT note FROM ledger WHERE consumer = '{consumer}' ORDER BY note");
    db.texts(&sql).await
}

impl Scripted {
    pub(crate) fn new(
        kind: Kind,
        script: impl Fn(&str, u32) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::of(kind, Arc::new(script))
    }

    pub(crate) fn of(kind: Kind, script: Arc<Script>) -> Self {
        Self {
            kind,
            script,
            calls: Arc::default(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Completes a consumer with this handler.
    pub(crate) fn serve(&self, queue: QueueBuilder) -> OutboxBuilder {
        let queue = queue.consumer(self.kind.consumer());
        match self.kind {
            Kind::LeasedEach => queue.leased(self.clone()),
            Kind::LeasedBatch => queue.leased_batch(self.clone()),
            Kind::TransactionalEach => queue.transactional(self.clone()),
            Kind::TransactionalBatch => queue.transactional_batch(self.clone()),
        }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// The calls for one message, in order.
    pub(crate) fn calls_for(&self, text: &str) -> Vec<Call> {
        let mut calls = self.calls();
        calls.retain(|call| call.text == text);
        calls
    }

    fn act(&self, message: &OutboxMessage, batch: usize) -> Act {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let act = (self.script)(&text, message.attempts());
        self.calls.lock().unwrap().push(Call {
            text,
            attempts: message.attempts(),
            batch,
            at: Instant::now(),
        });
        act
    }

    async fn act_in(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        batch: usize,
    ) -> HandlerResult {
        let act = self.act(message, batch);
        let consumer = self.kind.consumer();
        let note = String::from_utf8_lossy(message.payload()).into_owned();
        let write = format!("INSERT INTO ledger (consumer, note) VALUES ('{consumer}', '{note}')");
        if let Err(error) = tx.execute_unprepared(&write).await {
            return HandlerResult::retry(error);
        }
        if matches!(act, Act::FailSql | Act::IgnoreFailedSql) {
            let failed = tx
                .execute_unprepared("UPDATE no_such_table SET a = 1")
                .await;
            let error = failed.expect_err("there is no such table");
            if act == Act::FailSql {
                return HandlerResult::retry(error);
            }
        }
        if act == Act::EndConnection {
            let end = match tx.get_database_backend() {
                DbBackend::Postgres => "SELECT pg_terminate_backend(pg_backend_pid())",
                _ => "KILL CONNECTION_ID()",
            };
            tx.execute_unprepared(end).await.expect_err("it is ended");
        }
        outcome(act, message)
    }
}

fn outcome(act: Act, message: &OutboxMessage) -> HandlerResult {
    let reason = format!("told to fail, after {}", message.attempts());
    match act {
        Act::Succeed | Act::IgnoreFailedSql | Act::EndConnection => HandlerResult::Success,
        Act::Retry | Act::FailSql => HandlerResult::retry(reason),
        Act::RetryAfter(delay) => HandlerResult::retry_after(delay, reason),
        Act::Reject => HandlerResult::reject(reason),
        // Unlike panic!, it does not fill the test's output.
        Act::Panic => std::panic::resume_unwind(Box::new("told to panic")),
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Scripted {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        outcome(self.act(message, 1), message)
    }
}

#[async_trait::async_trait]
impl LeasedHandler for Scripted {
    async fn handle(&self, batch: &mut Batch<'_>, _: &Ctx) -> HandlerResult {
        let all = batch.len();
        while let Some(message) = batch.next_msg() {
            match outcome(self.act(message, all), message) {
                HandlerResult::Success => batch.ack(),
                HandlerResult::Reject { reason } => batch.reject(reason),
                retry => return retry,
            }
        }
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Scripted {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        self.act_in(tx, message, 1).await
    }
}

#[async_trait::async_trait]
impl TransactionalHandler for Scripted {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        _: &Ctx,
    ) -> HandlerResult {
        let len = batch.len();
        for message in batch.next_chunk(len) {
            let result = self.act_in(tx, message, len).await;
            if result != HandlerResult::Success {
                return result;
            }
        }
        HandlerResult::Success
    }
}
