//! The runtime of the [`outbox`](https://docs.rs/outbox) crate, complete without
//! its macros.
//!
//! A producer writes messages into its own transaction with [`enqueue`] and
//! [`enqueue_batch`]; typed events ([`Event`]) do the same through the methods
//! that `#[outbox_event]` generates.

mod dead_letters;
mod decode;
mod dialect;
mod engine;
mod enqueue;
mod error;
pub mod event;
mod handler;
mod headers;
mod key;
mod message;
mod name;
mod queue;
mod registry;
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub mod sabotage;
mod stage;
mod state;
mod stats;
mod store;
pub mod testing;
mod text;
mod tuning;
mod unique_id;
mod wake;

pub use dead_letters::{
    ClaimedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterId, DeadLetterMessage,
    DeadLetterNotice, DeadLetterScope, DeadLetterStatus, DeadLetters, LettersChanged, NotRequeued,
    REQUEUED_FROM, RequeueRefusal, RequeueReport, Requeued, TypedDeadLetter, TypedDeadLetters,
    Undecodable,
};
pub use engine::{
    ConfigError, DrainError, Outbox, OutboxBuilder, OutboxHandle, OutboxTransaction, QueueBuilder,
    StartError, StopReport,
};
pub use enqueue::{enqueue, enqueue_batch};
pub use error::{EnqueueError, EnqueueErrorKind};
pub use event::Event;
pub use handler::{
    Batch, Ctx, Extract, FromMessage, HandlerError, HandlerResult, LeasedHandler,
    LeasedMessageHandler, Message, OutboxMessage, Outcome, State, StateType, TransactionalHandler,
    TransactionalMessageHandler, typed,
};
pub use key::{EventKey, MAX_KEY_LEN};
pub use message::{
    DEFAULT_MAX_PAYLOAD, EnqueueOptions, Headers, InvalidHeader, NewMessage, OutboxMessageId,
};
pub use name::{InvalidName, MAX_NAME_LEN, is_valid_name};
pub use queue::{InvalidPartitions, Partitions, Queue, QueueType, Slot, queue_id};
pub use registry::{
    ConsumerInfo, EventRegistration, HandlerOptions, HandlerRegistration, Mode, OutboxHandler,
    Registry, events, registry,
};

pub use stats::{
    ConsumerStats, FailingMessage, OutboxStats, PartitionStats, QueueStats, UnregisteredMessages,
};
pub use tuning::{LeaseConfig, OutboxProfile, RetryPolicy, WorkerTuning};
pub use unique_id::UniqueId;

#[doc(hidden)]
pub use inventory;
