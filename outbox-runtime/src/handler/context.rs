//! The context of a call: what a handler may want to know beside its message.

use super::OutboxMessage;
use crate::handler::states::States;
use std::fmt;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// The context of a call of a handler: its message, its time, and the states that the application
/// gave to all handlers.
#[derive(Clone)]
pub struct Ctx {
    message: OutboxMessage,
    cancellation: CancellationToken,
    deadline: Instant,
    states: States,
}

impl Ctx {
    pub(crate) fn new(
        message: OutboxMessage,
        cancellation: CancellationToken,
        deadline: Instant,
        states: States,
    ) -> Self {
        Self {
            message,
            cancellation,
            deadline,
            states,
        }
    }

    /// The context of one call that has less time. It has a token of its own.
    pub(crate) fn until(self, deadline: Instant) -> Self {
        Self {
            cancellation: self.cancellation.child_token(),
            deadline: self.deadline.min(deadline),
            ..self
        }
    }

    /// The message that is handled. For a batch it is the first message.
    #[must_use]
    pub fn message(&self) -> &OutboxMessage {
        &self.message
    }

    /// The value of this type that was given to the builder with
    /// [`state`](crate::OutboxBuilder::state).
    #[must_use]
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.states.get()
    }

    /// Fires in three cases: the process stops, the handler's timeout is over, or the lease nearly
    /// is. The handler is dropped a little later.
    #[must_use]
    pub fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// How long until the token fires because the time is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("message", &self.message)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
