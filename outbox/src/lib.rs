//! A transactional outbox on sea-orm 2.
//!
//! A service writes its data and, in the same transaction, the events that
//! others must hear of:
//!
//! ```
//! use outbox::prelude::*;
//!
//! #[outbox_event(queue = "orders", partitions = 4)]
//! #[derive(Debug, Serialize, Deserialize)]
//! pub struct OrderCreated {
//!     pub order_id: i64,
//!     pub total_cents: i64,
//! }
//!
//! # async fn place() -> Result<(), Box<dyn std::error::Error>> {
//! let db = sea_orm::Database::connect("sqlite::memory:").await?;
//! outbox::migrate(&db).await?;
//!
//! let tx = db.begin().await?;
//! // ... your own writes ...
//! OrderCreated { order_id: 7, total_cents: 1999 }.enqueue(&tx, 7).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! # fn main() {}
//! ```

/// For handlers made by hand: their traits have `async` methods.
pub use async_trait::async_trait;
pub use outbox_macros::{OutboxEvent, outbox_event, queue};
pub use outbox_migrations as migrations;
pub use outbox_migrations::{SchemaError, check as check_schema, migrate};
pub use outbox_runtime::{
    Batch, ConfigError, ConsumerStats, Ctx, DEFAULT_MAX_PAYLOAD, EnqueueError, EnqueueErrorKind,
    EnqueueOptions, Event, EventKey, EventRegistration, FailingMessage, HandlerResult, Headers,
    InvalidHeader, InvalidName, InvalidPartitions, LeaseConfig, LeasedHandler,
    LeasedMessageHandler, MAX_KEY_LEN, MAX_NAME_LEN, NewMessage, Outbox, OutboxBuilder,
    OutboxHandle, OutboxMessage, OutboxMessageId, OutboxProfile, OutboxStats, OutboxTransaction,
    PartitionStats, Partitions, Queue, QueueBuilder, QueueStats, QueueType, RetryPolicy,
    StartError, StopReport, TransactionalHandler, TransactionalMessageHandler,
    UnregisteredMessages, WorkerTuning, enqueue, enqueue_batch, events, is_valid_name, queue_id,
};

/// Makes every queue that an event of this binary names known to the database,
/// without delivering anything. Do it before producers are deployed.
///
/// # Errors
/// [`StartError`] with every problem there is: two events that disagree on a queue's
/// partitions, a queue the database knows with another number of them ...
pub async fn register(db: &sea_orm::DatabaseConnection) -> Result<(), StartError> {
    Outbox::builder(db.clone()).register().await
}

/// The sea-orm that this crate works with, for a program that has no dependency on it.
pub use sea_orm;

/// What a program that uses the outbox needs, in one line.
pub mod prelude {
    pub use crate::{
        Ctx, EnqueueError, EnqueueOptions, Event, EventKey, HandlerResult, Headers, Outbox,
        OutboxEvent, OutboxMessage, OutboxMessageId, OutboxProfile, Partitions, outbox_event,
    };
    pub use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, TransactionTrait};
    pub use serde::{Deserialize, Serialize};
}

/// What the macros' output refers to. Not for use by hand; it may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use outbox_runtime::event::{
        Enqueuing, enqueue, enqueue_all, enqueue_to, enqueue_with, max_payload,
    };
    pub use outbox_runtime::inventory;
    pub use outbox_runtime::{
        EnqueueError, EnqueueOptions, Event, EventKey, EventRegistration, OutboxMessageId,
        Partitions, Queue, QueueType,
    };
    pub use sea_orm::ConnectionTrait;
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
