//! A handler of any form.

use super::{
    Batch, Ctx, HandlerResult, LeasedHandler, LeasedMessageHandler, OutboxMessage, Progress,
    TransactionalHandler, TransactionalMessageHandler,
};
use sea_orm::DatabaseTransaction;
use std::fmt;
use std::sync::Arc;

/// What a consumer promises about the delivery to its handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At least once, outside any transaction.
    Leased,
    /// Exactly once with the database.
    Transactional,
}

impl Mode {
    /// The name of the mode in the database and in the macro.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leased => "leased",
            Self::Transactional => "transactional",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A handler of one of the four forms.
#[derive(Clone)]
pub(crate) enum AnyHandler {
    LeasedEach(Arc<dyn LeasedMessageHandler>),
    LeasedBatch(Arc<dyn LeasedHandler>),
    TransactionalEach(Arc<dyn TransactionalMessageHandler>),
    TransactionalBatch(Arc<dyn TransactionalHandler>),
}

impl AnyHandler {
    pub(crate) fn mode(&self) -> Mode {
        match self {
            Self::LeasedEach(_) | Self::LeasedBatch(_) => Mode::Leased,
            Self::TransactionalEach(_) | Self::TransactionalBatch(_) => Mode::Transactional,
        }
    }

    pub(crate) fn takes_batches(&self) -> bool {
        matches!(self, Self::LeasedBatch(_) | Self::TransactionalBatch(_))
    }

    /// Hands over one message, outside of any claim.
    pub(crate) async fn call_with_one(
        &self,
        tx: Option<&DatabaseTransaction>,
        message: OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult {
        let mut progress = Progress::default();
        let mut batch = progress.batch(vec![message]);
        let result = self.call(tx, &mut batch, ctx).await;
        let result = concluded(result, &mut batch);
        match progress.take_rejected().pop() {
            Some((_, reason)) => HandlerResult::Reject { reason },
            None => result,
        }
    }

    /// Hands over a batch. What the handler settled stays settled whatever it returns.
    pub(crate) async fn call(
        &self,
        tx: Option<&DatabaseTransaction>,
        batch: &mut Batch<'_>,
        ctx: &Ctx,
    ) -> HandlerResult {
        match (self, tx) {
            (Self::LeasedBatch(handler), _) => handler.handle(batch, ctx).await,
            (Self::TransactionalBatch(handler), Some(tx)) => handler.handle(tx, batch, ctx).await,
            (Self::LeasedEach(handler), _) => match batch.next_msg() {
                Some(message) => settled(handler.handle(message, ctx).await, batch),
                None => HandlerResult::Success,
            },
            (Self::TransactionalEach(handler), Some(tx)) => match batch.next_msg() {
                Some(message) => settled(handler.handle(tx, message, ctx).await, batch),
                None => HandlerResult::Success,
            },
            (Self::TransactionalEach(_) | Self::TransactionalBatch(_), None) => {
                HandlerResult::retry("a transactional handler was called without a transaction")
            }
        }
    }
}

/// Marks the one message as its handler said.
fn settled(result: HandlerResult, batch: &mut Batch<'_>) -> HandlerResult {
    match result {
        HandlerResult::Success => batch.ack(),
        HandlerResult::Reject { reason } => batch.reject(reason),
        retry => return retry,
    }
    HandlerResult::Success
}

/// Success acknowledges what was handed out. If the handler took no message, no message was handled:
/// that counts as a failure, so that none is lost or handed out for ever.
pub(crate) fn concluded(result: HandlerResult, batch: &mut Batch<'_>) -> HandlerResult {
    if result == HandlerResult::Success && batch.processed() == 0 {
        batch.ack_shown();
        if batch.processed() == 0 {
            return HandlerResult::retry("the handler returned Success without taking a message");
        }
    }
    result
}
