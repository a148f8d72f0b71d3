//! A transactional outbox on sea-orm 2.
//!
//! A service writes its data and, in the same transaction, events about it. After the commit the
//! outbox delivers the events to handlers: none lost, none invented, in order per key, whatever
//! crashes.
//!
//! ```standalone_crate
//! use outbox::prelude::*;
//!
//! #[outbox_event(queue = "orders", partitions = 4, key = order_id)]
//! #[derive(Debug, Serialize, Deserialize)]
//! pub struct OrderCreated {
//!     pub order_id: i64,
//!     pub total_cents: i64,
//! }
//!
//! #[outbox_handler(mode = leased)]
//! async fn ship(event: OrderCreated) -> Result<(), HandlerError> {
//!     println!("order {} is on its way", event.order_id);
//!     Ok(())
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let url = format!("sqlite://{}?mode=rwc", directory.path().join("o.db").display());
//! let db = sea_orm::Database::connect(url).await?;
//! outbox::migrate(&db).await?;
//! let running = Outbox::builder(db.clone()).start().await?; // finds `ship`
//!
//! let tx = db.begin().await?;
//! // ... your own writes ...
//! OrderCreated { order_id: 7, total_cents: 1999 }.emit(&tx).await?;
//! tx.commit().await?;
//!
//! running.drained().await?; // order 7 is on its way
//! running.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`drained`](OutboxHandle::drained) waits until what is committed is handled.
//! [`stop`](OutboxHandle::stop) does not wait for that: what is left stays in the database and is
//! delivered after the next start.
//!
//! # Where to go next
//!
//! - [`guide`]: choosing a mode, keys and order, failures, idempotence, deploying, operating,
//!   testing, the tables.
//! - [`outbox_event`] and [`outbox_handler`]: everything an event and a handler may be.
//! - [`OutboxBuilder`]: how it runs; [`OutboxHandle`] and [`Outbox`]: what to do with it
//!   then.
//! - [`DeadLetters`]: messages that could not succeed.
//! - [`testing`]: for your own tests.

pub mod guide;

/// For handlers without macros: their traits have `async` methods.
pub use async_trait::async_trait;
pub use outbox_macros::{OutboxEvent, outbox_event, outbox_handler, queue};
pub use outbox_migrations as migrations;
pub use outbox_migrations::{SchemaError, check as check_schema, migrate};
pub use outbox_runtime::{
    Batch, ConfigError, ConsumerInfo, ConsumerStats, Ctx, DEFAULT_MAX_PAYLOAD, DrainError,
    EnqueueError, EnqueueErrorKind, EnqueueOptions, Event, EventKey, EventRegistration, Extract,
    FailingMessage, FromMessage, HandlerError, HandlerRegistration, HandlerResult, Headers,
    InvalidHeader, InvalidName, InvalidPartitions, LeaseConfig, LeasedHandler,
    LeasedMessageHandler, MAX_KEY_LEN, MAX_NAME_LEN, Message, Mode, NewMessage, Outbox,
    OutboxBuilder, OutboxHandle, OutboxHandler, OutboxMessage, OutboxMessageId, OutboxProfile,
    OutboxStats, OutboxTransaction, Outcome, PartitionStats, Partitions, Queue, QueueBuilder,
    QueueStats, QueueType, Registry, RetryPolicy, Slot, StartError, State, StateType, StopReport,
    TransactionalHandler, TransactionalMessageHandler, UniqueId, UnregisteredMessages,
    WorkerTuning, enqueue, enqueue_batch, events, is_valid_name, queue_id, registry, testing,
};
pub use outbox_runtime::{
    ClaimedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterId, DeadLetterMessage,
    DeadLetterNotice, DeadLetterScope, DeadLetterStatus, DeadLetters, LettersChanged, NotRequeued,
    REQUEUED_FROM, RequeueRefusal, RequeueReport, Requeued, TypedDeadLetter, TypedDeadLetters,
    Undecodable,
};

/// A list of handlers for [`OutboxBuilder::handlers`], by the names of their functions.
///
/// ```
/// use outbox::prelude::*;
///
/// # #[outbox_event(queue = "orders", partitions = 4)]
/// # #[derive(Serialize, Deserialize)]
/// # pub struct OrderCreated;
/// # #[outbox_handler(mode = leased)]
/// # async fn ship(_: OrderCreated) {}
/// # async fn start(db: DatabaseConnection) -> Result<(), outbox::StartError> {
/// let running = Outbox::builder(db)
///     .without_discovery()
///     .handlers(outbox::handlers![ship])
///     .start()
///     .await?;
/// # running.stop().await;
/// # Ok(())
/// # }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! handlers {
    ($($handler:ty),* $(,)?) => {
        [$(<$handler as $crate::OutboxHandler>::REGISTRATION),*]
    };
}

/// Registers in the database every queue that an event of this binary names, and the consumers of
/// its handlers. It delivers nothing. Call it before producers are deployed.
///
/// # Errors
/// [`StartError`] with every problem that there is. Examples: two events disagree on a queue's
/// partitions; the database knows a queue with another number of partitions.
pub async fn register(db: &sea_orm::DatabaseConnection) -> Result<(), StartError> {
    Outbox::builder(db.clone()).register().await
}

/// The sea-orm that this crate uses, for a program that does not depend on sea-orm itself.
pub use sea_orm;

/// What a program that uses the outbox needs, in one line.
pub mod prelude {
    pub use crate::{
        Batch, Ctx, EnqueueError, EnqueueOptions, Event, EventKey, HandlerError, HandlerResult,
        Headers, Message, Outbox, OutboxEvent, OutboxMessage, OutboxMessageId, OutboxProfile,
        Partitions, State, outbox_event, outbox_handler,
    };
    pub use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, TransactionTrait};
    pub use serde::{Deserialize, Serialize};
}

/// What generated code refers to. Do not use it by hand; it may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use outbox_runtime::event::{
        Enqueuing, enqueue, enqueue_all, enqueue_to, enqueue_with, max_payload,
    };
    pub use outbox_runtime::inventory;
    pub use outbox_runtime::typed::{
        leased_batch, leased_batch_of_messages, leased_each, leased_each_message, run,
        transactional_batch, transactional_batch_of_messages, transactional_each,
        transactional_each_message,
    };
    pub use outbox_runtime::{
        EnqueueError, EnqueueOptions, Event, EventKey, EventRegistration, Extract, HandlerOptions,
        HandlerRegistration, Mode, OutboxHandler, OutboxMessageId, Outcome, Partitions, Queue,
        QueueType,
    };
    pub use sea_orm::ConnectionTrait;
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
