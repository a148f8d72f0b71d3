//! What a handler is: four traits, by mode and by one message or a batch. And how functions become
//! handlers.

mod any;
mod batch;
mod context;
mod dead_letter;
mod extract;
mod message;
mod outcome;
pub(crate) mod reason;
pub(crate) mod states;
#[doc(hidden)]
pub mod typed;

pub use any::Mode;
pub(crate) use any::{AnyHandler, concluded};
pub use batch::Batch;
pub(crate) use batch::Progress;
pub use context::Ctx;
pub(crate) use dead_letter::DeadLetterHook;
pub use dead_letter::DeadLetterNotice;
pub use extract::{Extract, State, StateType};
pub use message::OutboxMessage;
pub use outcome::{HandlerError, Outcome};
pub use typed::{FromMessage, Message};

use sea_orm::DatabaseTransaction;
use std::fmt;
use std::time::Duration;

/// How the handling of a message ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerResult {
    /// The message is handled.
    Success,
    /// Try again after the policy's backoff.
    Retry {
        /// Why.
        reason: String,
    },
    /// Try again after this long.
    RetryAfter {
        /// Why.
        reason: String,
        /// How long to wait.
        delay: Duration,
    },
    /// Permanent failure: the message becomes a dead letter without another attempt.
    Reject {
        /// Why.
        reason: String,
    },
}

impl HandlerResult {
    /// Why it is not a success; `None` for a success.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Success => None,
            Self::Retry { reason } | Self::RetryAfter { reason, .. } | Self::Reject { reason } => {
                Some(reason)
            }
        }
    }

    /// Try again after the policy's backoff.
    pub fn retry(reason: impl fmt::Display) -> Self {
        Self::Retry {
            reason: reason.to_string(),
        }
    }

    /// Try again after `delay`.
    pub fn retry_after(delay: Duration, reason: impl fmt::Display) -> Self {
        Self::RetryAfter {
            reason: reason.to_string(),
            delay,
        }
    }

    /// Make the message a dead letter.
    pub fn reject(reason: impl fmt::Display) -> Self {
        Self::Reject {
            reason: reason.to_string(),
        }
    }
}

/// Delivers at least once, outside any transaction, one message at a time.
#[async_trait::async_trait]
pub trait LeasedMessageHandler: Send + Sync + 'static {
    /// Handles a message. Its [`unique_id`](OutboxMessage::unique_id) is the same in every
    /// attempt: use it as an idempotency key.
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult;
}

/// Delivers at least once, outside any transaction, a batch of one partition at a time.
#[async_trait::async_trait]
pub trait LeasedHandler: Send + Sync + 'static {
    /// Handles a batch. Messages that were acknowledged through the batch are handled, whatever is
    /// returned. A failure is the failure of the first message that was not acknowledged. Success
    /// without any acknowledgement acknowledges every message that was handed out. Messages that
    /// were not handed out are delivered again.
    async fn handle(&self, batch: &mut Batch<'_>, ctx: &Ctx) -> HandlerResult;
}

/// Delivers exactly once with the database, one message at a time.
///
/// The transaction is not the handler's own, so a handler must not do two things. It must not
/// ignore an error of the database and go on. And it must not keep a nested transaction
/// (`tx.begin()`) beyond its return. The outbox finds the first and counts it as a failure, except
/// for writes that MySQL commits by itself after a deadlock. It finds the second too: then each
/// message of the batch has a transaction of its own, which is slow.
#[async_trait::async_trait]
pub trait TransactionalMessageHandler: Send + Sync + 'static {
    /// Handles a message inside the transaction that also acknowledges it.
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult;
}

/// Delivers exactly once with the database, a batch of one partition at a time.
#[async_trait::async_trait]
pub trait TransactionalHandler: Send + Sync + 'static {
    /// Handles a batch inside the transaction that also acknowledges it. A failure is the failure
    /// of the first message that was not acknowledged. Then everything is rolled back, the
    /// acknowledged messages are handled and committed again, and the failed message is handled
    /// alone. Success without any acknowledgement acknowledges every message that was handed out.
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        ctx: &Ctx,
    ) -> HandlerResult;
}
