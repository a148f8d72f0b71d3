//! Waits until everything that is committed is handled.

use super::handle::{Outbox, OutboxHandle};
use crate::database::progress::sequences;
use crate::database::progress::{first_unsequenced, places, unsequenced};
use crate::queue::PartitionId;
use crate::service::supervisor::{ServedQueue, ServiceContext};
use sea_orm::DbErr;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first and the longest pause between two polls. Each pause is twice as long as the one
/// before.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);

/// Why [`drained`](OutboxHandle::drained) cannot say that everything is handled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DrainError {
    /// The outbox stopped first. Messages that are not handled yet stay in the database and are
    /// delivered after the next start.
    #[error(
        "the outbox stopped before everything was handled; what is left is delivered after the next start"
    )]
    Stopped,
    /// The database could not be asked. Delivery goes on.
    #[error("the database cannot say whether everything is handled")]
    Database(#[from] DbErr),
}

impl OutboxHandle {
    /// Waits until every message that was committed to this process's queues before the call is
    /// handled by every consumer of this process. A message that became a dead letter counts as
    /// handled.
    ///
    /// It does not wait for messages that are committed later, for example by handlers: call it
    /// again for those. It waits for a message that failed until an attempt succeeds or the message
    /// becomes a dead letter. It also waits for a paused queue, and for a message that is left to
    /// another process. Limit the wait with `tokio::time::timeout`.
    ///
    /// ```
    /// # use outbox_runtime::{DrainError, OutboxHandle};
    /// # use std::time::Duration;
    /// # async fn end(running: OutboxHandle) -> Result<(), DrainError> {
    /// if let Ok(drained) = tokio::time::timeout(Duration::from_secs(30), running.drained()).await {
    ///     drained?;
    /// }
    /// running.stop().await; // what is left is delivered after the next start
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DrainError::Stopped`] if the outbox stops first, [`DrainError::Database`] if the
    /// database cannot be read.
    ///
    /// # Cancel safety
    /// It only looks: dropping it changes nothing, and it may be called again.
    pub async fn drained(&self) -> Result<(), DrainError> {
        self.outbox().drained().await
    }
}

impl Outbox {
    /// Waits until everything that is committed is handled; see [`OutboxHandle::drained`].
    ///
    /// # Errors
    /// As for [`OutboxHandle::drained`].
    ///
    /// # Cancel safety
    /// It only looks: dropping it changes nothing, and it may be called again.
    pub async fn drained(&self) -> Result<(), DrainError> {
        let context = &self.context;
        let mut waiting = Vec::new();
        for queue in &context.queues {
            let look = unsequenced(&context.db, &queue.queue);
            waiting.push(context.look(look).await?);
        }
        self.flush();
        for (queue, between) in context.queues.iter().zip(waiting) {
            if let Some(between) = between {
                context.until_sequenced(queue, between).await?;
            }
        }
        // Read once: messages that are numbered later are not waited for.
        let mut ends = Vec::new();
        for queue in &context.queues {
            let look = sequences(&context.db, queue.queue.queue_id());
            ends.push(context.look(look).await?);
        }
        for (queue, ends) in context.queues.iter().zip(&ends) {
            for dispatcher in &queue.dispatchers {
                let consumer = &dispatcher.consumer.name;
                context.until_at(queue, consumer, ends).await?;
            }
        }
        Ok(())
    }
}

impl ServiceContext {
    async fn until_sequenced(
        &self,
        queue: &ServedQueue,
        (mut from, to): (i64, i64),
    ) -> Result<(), DrainError> {
        let mut pause = SHORTEST;
        // Only rows that were there at the call count, so only rows between those ids.
        loop {
            let look = first_unsequenced(&self.db, &queue.queue, (from, to));
            let Some(first) = self.look(look).await? else {
                return Ok(());
            };
            from = first;
            self.rest(&mut pause).await?;
        }
    }

    async fn until_at(
        &self,
        queue: &ServedQueue,
        consumer: &str,
        ends: &BTreeMap<PartitionId, i64>,
    ) -> Result<(), DrainError> {
        let mut pause = SHORTEST;
        loop {
            let look = places(&self.db, queue.queue.queue_id(), consumer);
            let places = self.look(look).await?;
            let behind = |(id, at): (&PartitionId, &i64)| ends.get(id).is_some_and(|end| at < end);
            if !places.iter().any(behind) {
                return Ok(());
            }
            self.rest(&mut pause).await?;
        }
    }

    /// Runs one of our own short statements, of which only so many run at once.
    async fn look<T>(&self, look: impl Future<Output = Result<T, DbErr>>) -> Result<T, DbErr> {
        let _permit = self.statements.acquire().await;
        look.await
    }

    async fn rest(&self, pause: &mut Duration) -> Result<(), DrainError> {
        self.pause(*pause).await;
        if self.stopping() {
            return Err(DrainError::Stopped);
        }
        *pause = (*pause * 2).min(LONGEST);
        Ok(())
    }
}
