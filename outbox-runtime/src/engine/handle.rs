//! The running outbox: what it offers, and how it is stopped.

use super::builder::OutboxBuilder;
use crate::database::pass_on::pass_on;
use crate::database::registration;
use crate::database::transaction::handler_options;
use crate::operate::dead_letter::DeadLetters;
use crate::operate::stats::OutboxStats;
use crate::queue::{PartitionSet, QueueId};
use crate::service::supervisor::{ServedQueue, ServiceContext};
use sea_orm::{
    AccessMode, DatabaseConnection, DatabaseTransaction, DbErr, IsolationLevel, TransactionError,
    TransactionOptions, TransactionTrait,
};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_util::task::TaskTracker;

/// A running outbox, for producing and operating. Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    pub(super) context: Arc<ServiceContext>,
}

impl Outbox {
    /// Starts to describe an outbox on these connections.
    pub fn builder(db: DatabaseConnection) -> OutboxBuilder {
        OutboxBuilder::new(db)
    }

    pub(crate) fn new(context: Arc<ServiceContext>) -> Self {
        Self { context }
    }

    /// Begins a transaction whose commit wakes the sequencer at once. On SQLite it begins as the
    /// writer. A transaction that becomes the writer later may fail when it tries.
    ///
    /// # Errors
    /// If the database cannot begin one.
    pub async fn begin(&self) -> Result<OutboxTransaction, DbErr> {
        let db = &self.context.db;
        let options = handler_options(db)?;
        let queues = self.context.queues.iter();
        let signals = queues.map(|served| served.signal.sent()).collect();
        Ok(OutboxTransaction {
            tx: db.begin_with_options(options).await?,
            context: self.context.clone(),
            signals,
        })
    }

    /// Runs `work` in a transaction, commits if it succeeds, and wakes the
    /// sequencer at once.
    ///
    /// # Errors
    /// What `work` returns, or what the database says to begin and commit.
    pub async fn transaction<T, E, F>(&self, work: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(
            &'c DatabaseTransaction,
        ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>,
        E: std::fmt::Display + std::fmt::Debug,
    {
        let tx = self.begin().await.map_err(TransactionError::Connection)?;
        match work(&tx).await {
            Ok(done) => {
                tx.commit().await.map_err(TransactionError::Connection)?;
                Ok(done)
            }
            Err(error) => {
                tx.rollback().await.map_err(TransactionError::Connection)?;
                Err(TransactionError::Transaction(error))
            }
        }
    }

    /// Makes every sequencer of this process poll for committed messages now.
    pub fn flush(&self) {
        for served in &self.context.queues {
            served.signal.send();
        }
    }

    /// Pauses delivery of a queue in every process, also after restarts. Other processes notice
    /// within their reconciler's interval. Messages are kept.
    ///
    /// Returns whether the database knows the queue.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn pause(&self, queue: &str) -> Result<bool, DbErr> {
        self.set_paused(queue, true).await
    }

    /// Resumes delivery of a queue.
    ///
    /// # Errors
    /// As for [`pause`](Self::pause).
    pub async fn resume(&self, queue: &str) -> Result<bool, DbErr> {
        self.set_paused(queue, false).await
    }

    async fn set_paused(&self, queue: &str, paused: bool) -> Result<bool, DbErr> {
        let id = QueueId::of(queue);
        let known = registration::set_paused(&self.context.db, id, paused).await?;
        if let Some(served) = self.served_queue(queue) {
            served.paused.store(paused, Ordering::Release);
            if !paused {
                for dispatcher in &served.dispatchers {
                    dispatcher.wake_all(PartitionSet::ALL);
                }
            }
        }
        Ok(known)
    }

    /// Removes a consumer that is gone for good, so that it no longer keeps delivered messages from
    /// being deleted. Its dead letters stay.
    ///
    /// **Messages that wait for the consumer are then never delivered to it.** If it registers
    /// again, it starts at the newest message, like any consumer that joins a queue. If the queue
    /// has no other consumer, or with `from = earliest`, it gets what is still there. A consumer
    /// that is only away, for example while a deploy is rolled back, needs nothing but a process
    /// that runs it.
    ///
    /// Returns whether there was one.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn remove_consumer(&self, queue: &str, consumer: &str) -> Result<bool, DbErr> {
        let id = QueueId::of(queue);
        registration::remove_consumer(&self.context.db, id, consumer).await
    }

    /// How everything in the database is doing, all processes together.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn stats(&self) -> Result<OutboxStats, DbErr> {
        crate::operate::stats::read(&self.context.db).await
    }

    /// The messages that could not succeed, all queues together.
    #[must_use]
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(self.context.db.clone())
    }

    fn served_queue(&self, queue: &str) -> Option<&ServedQueue> {
        let mut queues = self.context.queues.iter();
        queues.find(|served| served.queue.name() == queue)
    }
}

/// A transaction begun by [`Outbox::begin`]. Use it wherever a sea-orm
/// transaction is expected, and commit it with [`commit`](Self::commit).
pub struct OutboxTransaction {
    tx: DatabaseTransaction,
    context: Arc<ServiceContext>,
    /// How many signals of each queue had been sent when it began.
    signals: Vec<u64>,
}

impl OutboxTransaction {
    /// Commits, and wakes the sequencers of queues that were enqueued to.
    ///
    /// # Errors
    /// If the database cannot commit.
    pub async fn commit(self) -> Result<(), DbErr> {
        self.tx.commit().await?;
        for (served, before) in self.context.queues.iter().zip(self.signals) {
            if served.signal.sent() != before {
                served.signal.send();
            }
        }
        Ok(())
    }

    /// Rolls back.
    ///
    /// # Errors
    /// If the database cannot; it will when the connection ends.
    pub async fn rollback(self) -> Result<(), DbErr> {
        self.tx.rollback().await
    }
}

impl Deref for OutboxTransaction {
    type Target = DatabaseTransaction;

    fn deref(&self) -> &DatabaseTransaction {
        &self.tx
    }
}

pass_on!(OutboxTransaction, tx);

/// A running outbox, to be stopped. Dropping it stops without waiting.
#[must_use = "the outbox stops when this is dropped"]
pub struct OutboxHandle {
    outbox: Outbox,
    tasks: TaskTracker,
}

/// How a stop went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StopReport {
    /// Whether everything ended by itself within the grace.
    pub clean: bool,
    /// How many handlers had to be dropped. Their messages are delivered again, and no attempt is
    /// counted.
    pub interrupted: usize,
    /// How long it took.
    pub took: Duration,
}

impl OutboxHandle {
    pub(crate) fn new(outbox: Outbox, tasks: TaskTracker) -> Self {
        Self { outbox, tasks }
    }

    /// The running outbox.
    #[must_use]
    pub fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// How everything in the database is doing, all processes together.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub async fn stats(&self) -> Result<OutboxStats, DbErr> {
        self.outbox.stats().await
    }

    /// Stops with a grace of ten seconds; see [`stop_within`](Self::stop_within).
    ///
    /// It waits for handlers that run, not for messages that wait. Messages that are committed and
    /// not yet handled stay in the database and are delivered after the next start. To have them
    /// handled first, await [`drained`](Self::drained).
    pub async fn stop(self) -> StopReport {
        self.stop_within(Duration::from_secs(10)).await
    }

    /// Stops: no new batch begins, and the handlers' tokens are cancelled. Handlers have `grace` to
    /// finish; then they are dropped. Leases are given back, and an interrupted handler is not
    /// charged with an attempt. Messages that no handler has begun stay in the database for the
    /// next start.
    pub async fn stop_within(self, grace: Duration) -> StopReport {
        let began = Instant::now();
        let stop = &self.outbox.context.stop;
        stop.stopping.cancel();
        self.tasks.close();
        let clean = tokio::time::timeout(grace, self.tasks.wait()).await.is_ok();
        if !clean {
            stop.stopped.cancel();
            // Interrupted handlers are written down. A database that does not answer must not keep
            // the process.
            let _ = tokio::time::timeout(Duration::from_secs(2), self.tasks.wait()).await;
        }
        StopReport {
            clean,
            interrupted: stop.interrupted.load(Ordering::Acquire),
            took: began.elapsed(),
        }
    }
}

impl Drop for OutboxHandle {
    /// Runs also at the end of a stop.
    fn drop(&mut self) {
        self.outbox.context.stop.stopping.cancel();
        self.outbox.context.connections.close();
    }
}

/// So that nested transactions can be begun from it.
#[async_trait::async_trait]
impl TransactionTrait for OutboxTransaction {
    type Transaction = DatabaseTransaction;

    async fn begin(&self) -> Result<DatabaseTransaction, DbErr> {
        self.tx.begin().await
    }

    async fn begin_with_config(
        &self,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<DatabaseTransaction, DbErr> {
        self.tx
            .begin_with_config(isolation_level, access_mode)
            .await
    }

    async fn begin_with_options(
        &self,
        options: TransactionOptions,
    ) -> Result<DatabaseTransaction, DbErr> {
        self.tx.begin_with_options(options).await
    }

    async fn transaction<F, T, E>(&self, callback: F) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(
                &'c DatabaseTransaction,
            ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>
            + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        self.tx.transaction(callback).await
    }

    async fn transaction_with_config<F, T, E>(
        &self,
        callback: F,
        isolation_level: Option<IsolationLevel>,
        access_mode: Option<AccessMode>,
    ) -> Result<T, TransactionError<E>>
    where
        F: for<'c> FnOnce(
                &'c DatabaseTransaction,
            ) -> Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>
            + Send,
        T: Send,
        E: std::fmt::Display + std::fmt::Debug + Send,
    {
        self.tx
            .transaction_with_config(callback, isolation_level, access_mode)
            .await
    }
}
