//! What a handler is: four traits, by mode and by one message or a batch; and how
//! functions become handlers.

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

pub(crate) use any::AnyHandler;
pub use any::Mode;
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

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerResult {
    /// Done.
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
    /// It can never succeed: to the dead letters with it.
    Reject {
        /// Why.
        reason: String,
    },
}

impl HandlerResult {
    /// Why it is no success.
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

    /// To the dead letters.
    pub fn reject(reason: impl fmt::Display) -> Self {
        Self::Reject {
            reason: reason.to_string(),
        }
    }
}

/// At least once, outside any transaction, one message at a time.
#[async_trait::async_trait]
pub trait LeasedMessageHandler: Send + Sync + 'static {
    /// Handles a message. Its [`unique_id`](OutboxMessage::unique_id) is the same in every
    /// attempt: use it as an idempotency key.
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult;
}

/// At least once, outside any transaction, a batch of one partition at a time.
#[async_trait::async_trait]
pub trait LeasedHandler: Send + Sync + 'static {
    /// Handles a batch. What was acknowledged through it is done whatever is
    /// returned; a failure is that of the first message that was not. Success
    /// without any acknowledgement means every message that was handed out; what
    /// was not comes again.
    async fn handle(&self, batch: &mut Batch<'_>, ctx: &Ctx) -> HandlerResult;
}

/// Exactly once with the database, one message at a time.
///
/// Two things a handler must not do, because the transaction is not its own:
/// ignore an error of the database and go on as if nothing happened, and keep
/// a nested transaction (`tx.begin()`) beyond its return. The first is found and
/// counted as a failure, except for what MySQL commits by itself after a deadlock.
/// The second is found too: each message of the batch then has a transaction of
/// its own, which is slow.
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

/// Exactly once with the database, a batch of one partition at a time.
#[async_trait::async_trait]
pub trait TransactionalHandler: Send + Sync + 'static {
    /// Handles a batch inside the transaction that also acknowledges it. On a
    /// failure, that of the first message that was not acknowledged, everything is
    /// rolled back, what was acknowledged is handled and committed again, and the
    /// next message alone. Success without any acknowledgement means every message
    /// that was handed out.
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        ctx: &Ctx,
    ) -> HandlerResult;
}
