//! One consumer of a queue, being described.

use super::builder::{ConsumerSpec, OutboxBuilder, RouteSpec, WINDOW};
use crate::config::{LeaseConfig, RetryPolicy};
use crate::delivery::route::Handler;
use crate::handler::{
    AnyHandler, LeasedHandler, LeasedMessageHandler, TransactionalHandler,
    TransactionalMessageHandler,
};
use crate::queue::Queue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A consumer of a queue in the making; the handler completes it.
#[must_use = "give it a handler"]
pub struct QueueBuilder {
    builder: OutboxBuilder,
    queue: Option<Queue>,
    consumer: String,
    lease: LeaseConfig,
    retry: RetryPolicy,
    batch: Option<u32>,
    timeout: Option<Duration>,
    concurrency: u32,
    window: u32,
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
            timeout: None,
            concurrency: 1,
            window: WINDOW,
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

    /// Gives each message so long, or each call of a handler of batches. Then its
    /// token is cancelled, a quarter of a second later it is dropped, and the attempt
    /// counts as failed; in transactional mode the transaction is rolled back. It
    /// cannot be longer than the lease less its headroom, which is the limit without it
    /// and for all messages of a batch together. What a handler that
    /// blocks its thread does cannot be cut short.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Works on up to so many keys of a partition at a time, each key in order; for
    /// leased handlers of single messages. A message that fails holds up its key only,
    /// until the partition is a [`window`](Self::window) of messages ahead of it.
    ///
    /// What is done ahead of a message that is not is remembered while this process
    /// holds the lease, and written down when it stops or pauses: it does not come again.
    /// After a crash or a lost lease it does, up to a window of messages of each
    /// partition: handlers must bear to see a message twice. Then these messages are
    /// tried one at a time, each counted before, to find one that kills its process.
    ///
    /// The lease is renewed while there is work, so each message has a lease's time of its
    /// own; who loses it is cancelled. No more than about 16 MiB of payloads are held for
    /// a partition, and no more handlers run at once than
    /// [`handlers_per_queue`](OutboxBuilder::handlers_per_queue) allows.
    pub fn concurrency(mut self, keys: u32) -> Self {
        self.concurrency = keys;
        self
    }

    /// Sets how many messages ahead of the first that is not done a partition goes,
    /// if it has several keys at a time; 1,000 by default.
    pub fn window(mut self, messages: u32) -> Self {
        self.window = messages;
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
        self.handler(AnyHandler::LeasedEach(Arc::new(handler)))
    }

    /// Delivers at least once, in batches, outside any transaction.
    pub fn leased_batch(self, handler: impl LeasedHandler) -> OutboxBuilder {
        self.handler(AnyHandler::LeasedBatch(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, one message at a time.
    pub fn transactional(self, handler: impl TransactionalMessageHandler) -> OutboxBuilder {
        self.handler(AnyHandler::TransactionalEach(Arc::new(handler)))
    }

    /// Delivers exactly once with the database, in batches.
    pub fn transactional_batch(self, handler: impl TransactionalHandler) -> OutboxBuilder {
        self.handler(AnyHandler::TransactionalBatch(Arc::new(handler)))
    }

    fn handler(mut self, handler: AnyHandler) -> OutboxBuilder {
        if let Some(queue) = self.queue {
            self.builder.consumers.push(ConsumerSpec {
                queue,
                name: self.consumer,
                mode: Handler::from(handler.clone()).mode(),
                lease: self.lease,
                batch: self.batch,
                concurrency: self.concurrency,
                window: self.window,
                from_earliest: self.from_earliest,
                routes: vec![RouteSpec {
                    event_types: self.event_types,
                    handler,
                    retry: self.retry,
                    batch: self.batch,
                    timeout: self.timeout,
                    name: None,
                }],
            });
        }
        self.builder
    }
}
