//! Describes one consumer of a queue.

use super::builder::{ConsumerSpec, OutboxBuilder, RouteSpec, WINDOW};
use crate::config::{LeaseConfig, RetryPolicy};
use crate::handler::{
    AnyHandler, LeasedHandler, LeasedMessageHandler, TransactionalHandler,
    TransactionalMessageHandler,
};
use crate::queue::Queue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A consumer of a queue that is being described. Its handler completes it.
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
    /// `queue` is `None` if its name was refused; that problem is noted already.
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

    /// Names the consumer. Without this its name is `default`. Each consumer has its own progress,
    /// failures and dead letters.
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

    /// Limits how long the handler may work on a message, or on one call if it takes batches. When
    /// the time is over, its token is cancelled. A quarter of a second later it is dropped, and the
    /// attempt counts as failed. In transactional mode the transaction is rolled back.
    ///
    /// It cannot be longer than the lease less its headroom. That is also the limit without a
    /// timeout, and the limit for all messages of a batch together. A handler that blocks its
    /// thread cannot be cut short.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Works on up to so many keys of a partition at a time, each key in order. It is for leased
    /// handlers of single messages. A message that fails holds up only its own key, until the
    /// partition is a [`window`](Self::window) of messages ahead of it.
    ///
    /// Messages that are done ahead of one that is not are remembered while this process holds the
    /// lease. They are written to the database when the outbox stops or pauses, so they are not
    /// delivered again. After a crash or a lost lease they are delivered again, up to a window of
    /// messages of each partition: handlers must bear to see a message twice. Then these messages
    /// are tried one at a time, and each try is counted before it begins. So a message that kills
    /// its process is found.
    ///
    /// The lease is renewed while there is work, so each message has the time of a whole lease. If
    /// the process loses the lease, its handlers are cancelled. No more than about 16 MiB of
    /// payloads are held for a partition. No more handlers run at once than
    /// [`handlers_per_queue`](OutboxBuilder::handlers_per_queue) allows.
    pub fn concurrency(mut self, keys: u32) -> Self {
        self.concurrency = keys;
        self
    }

    /// Sets how many messages ahead of the first unfinished one a partition goes, if it works on
    /// several keys at a time; 1,000 by default.
    pub fn window(mut self, messages: u32) -> Self {
        self.window = messages;
        self
    }

    /// Makes a consumer that joins a queue later start at the oldest message that is still there.
    /// Without this it starts at the next message.
    pub fn from_earliest(mut self) -> Self {
        self.from_earliest = true;
        self
    }

    /// Sets which event types the handler takes; without this it takes all. A type that no version
    /// of this consumer ever took is passed over if the program knows the type. Messages of other
    /// types are left to processes that take them.
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
                mode: handler.mode(),
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
