//! One consumer of a queue, being described.

use super::builder::{ConsumerSpec, OutboxBuilder};
use crate::handler::{
    LeasedHandler, LeasedMessageHandler, TransactionalHandler, TransactionalMessageHandler,
};
use crate::queue::Queue;
use crate::stage::processor::Handler;
use crate::tuning::{LeaseConfig, RetryPolicy};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A consumer of a queue in the making; the handler completes it.
#[must_use = "give it a handler"]
pub struct QueueBuilder {
    builder: OutboxBuilder,
    queue: Option<Queue>,
    consumer: String,
    lease: LeaseConfig,
    retry: RetryPolicy,
    batch: Option<u32>,
    from_earliest: bool,
    event_types: Option<BTreeSet<String>>,
}

impl QueueBuilder {
    /// Without a queue if its name was refused, which is noted already.
    pub(super) fn new(builder: OutboxBuilder, queue: Option<Queue>) -> Self {
        Self {
            builder,
            queue,
            consumer: "default".to_owned(),
            lease: LeaseConfig::default(),
            retry: RetryPolicy::default(),
            batch: None,
            from_earliest: false,
            event_types: None,
        }
    }

    /// Names the consumer; without, it is `default`. Each consumer has its own
    /// progress, failures and dead letters.
    pub fn consumer(mut self, name: impl Into<String>) -> Self {
        self.consumer = name.into();
        self
    }

    /// Sets its lease.
    pub fn lease(mut self, lease: LeaseConfig) -> Self {
        self.lease = lease;
        self
    }

    /// Sets how often and when a message that failed is tried again.
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how many messages it takes at once, instead of the profile's number.
    pub fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    /// Starts a consumer that joins a queue later at the oldest message that is
    /// still there, instead of at the next one.
    pub fn from_earliest(mut self) -> Self {
        self.from_earliest = true;
        self
    }

    /// Says which event types the handler takes; without, it takes all. Types that
    /// no version of this consumer ever took are passed over if the program knows
    /// them; others are left to processes that take them.
    pub fn event_types<I, T>(mut self, event_types: I) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        self.event_types = Some(event_types.into_iter().map(Into::into).collect());
        self
    }

    /// Delivers at least once, one message at a time, outside any transaction.
    pub fn leased(self, handler: impl LeasedMessageHandler) -> OutboxBuilder {
        self.handler(Handler::LeasedEach(Arc::new(handler)))
    }

    /// Delivers at least once, in batches, outside any transaction.
    pub fn leased_batch(self, handler: impl LeasedHandler) -> OutboxBuilder {
        self.handler(Handler::LeasedBatch(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, one message at a time.
    pub fn transactional(self, handler: impl TransactionalMessageHandler) -> OutboxBuilder {
        self.handler(Handler::TransactionalEach(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, in batches.
    pub fn transactional_batch(self, handler: impl TransactionalHandler) -> OutboxBuilder {
        self.handler(Handler::TransactionalBatch(Arc::new(handler)))
    }

    fn handler(mut self, handler: Handler) -> OutboxBuilder {
        if let Some(queue) = self.queue {
            self.builder.consumers.push(ConsumerSpec {
                queue,
                name: self.consumer,
                handler,
                lease: self.lease,
                retry: self.retry,
                batch: self.batch,
                from_earliest: self.from_earliest,
                event_types: self.event_types,
            });
        }
        self.builder
    }
}
