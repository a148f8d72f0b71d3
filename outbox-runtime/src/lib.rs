//! The runtime of the [`outbox`](https://docs.rs/outbox) crate, complete without
//! its macros.
//!
//! A producer writes messages into its own transaction with [`enqueue`] and
//! [`enqueue_batch`]; typed events ([`Event`]) do the same through the methods
//! that `#[outbox_event]` generates.

mod dialect;
mod engine;
mod enqueue;
mod error;
pub mod event;
mod handler;
mod key;
mod message;
mod name;
mod partitions;
mod queue;
mod registry;
mod stage;
mod state;
mod stats;
mod store;
mod tuning;
mod wake;

pub use engine::{
    ConfigError, Outbox, OutboxBuilder, OutboxHandle, OutboxTransaction, QueueBuilder, StartError,
    StopReport,
};
pub use enqueue::{enqueue, enqueue_batch};
pub use error::{EnqueueError, EnqueueErrorKind};
pub use event::Event;
pub use handler::{
    Batch, Ctx, HandlerResult, LeasedHandler, LeasedMessageHandler, OutboxMessage,
    TransactionalHandler, TransactionalMessageHandler,
};
pub use key::{EventKey, MAX_KEY_LEN};
pub use message::{
    DEFAULT_MAX_PAYLOAD, EnqueueOptions, Headers, InvalidHeader, NewMessage, OutboxMessageId,
};
pub use name::{InvalidName, MAX_NAME_LEN, is_valid_name};
pub use partitions::{InvalidPartitions, Partitions};
pub use queue::{Queue, QueueType, queue_id};
pub use registry::{EventRegistration, events};

pub use stats::{
    ConsumerStats, FailingMessage, OutboxStats, PartitionStats, QueueStats, UnregisteredMessages,
};
pub use tuning::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};

#[doc(hidden)]
pub use inventory;
