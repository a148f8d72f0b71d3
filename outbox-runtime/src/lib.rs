//! The runtime of the [`outbox`](https://docs.rs/outbox) crate, complete without
//! its macros.
//!
//! A producer writes messages into its own transaction with [`enqueue`] and
//! [`enqueue_batch`]; typed events ([`Event`]) do the same through the methods
//! that `#[outbox_event]` generates.

mod config;
mod database;
mod delivery;
mod engine;
pub mod event;
mod handler;
mod operate;
mod queue;
mod registry;
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub mod sabotage;
mod service;
pub mod testing;

pub use engine::{
    ConfigError, DrainError, Outbox, OutboxBuilder, OutboxHandle, OutboxTransaction, QueueBuilder,
    StartError, StopReport,
};
pub use event::Event;
pub use event::enqueue::{enqueue, enqueue_batch};
pub use event::error::{EnqueueError, EnqueueErrorKind};
pub use event::key::{EventKey, MAX_KEY_LEN};
pub use event::message::{
    DEFAULT_MAX_PAYLOAD, EnqueueOptions, Headers, InvalidHeader, NewMessage, OutboxMessageId,
};
pub use handler::{
    Batch, Ctx, Extract, FromMessage, HandlerError, HandlerResult, LeasedHandler,
    LeasedMessageHandler, Message, OutboxMessage, Outcome, State, StateType, TransactionalHandler,
    TransactionalMessageHandler, typed,
};
pub use operate::dead_letter::{
    ClaimedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterId, DeadLetterMessage,
    DeadLetterNotice, DeadLetterScope, DeadLetterStatus, DeadLetters, LettersChanged, NotRequeued,
    REQUEUED_FROM, RequeueRefusal, RequeueReport, Requeued, TypedDeadLetter, TypedDeadLetters,
    Undecodable,
};
pub use queue::name::{InvalidName, MAX_NAME_LEN, is_valid_name};
pub use queue::{InvalidPartitions, Partitions, Queue, QueueType, Slot, queue_id};
pub use registry::{
    ConsumerInfo, EventRegistration, HandlerOptions, HandlerRegistration, Mode, OutboxHandler,
    Registry, events, registry,
};

pub use config::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};
pub use event::unique::UniqueId;
pub use operate::stats::{
    ConsumerStats, FailingMessage, OutboxStats, PartitionStats, QueueStats, UnregisteredMessages,
};

#[doc(hidden)]
pub use inventory;
