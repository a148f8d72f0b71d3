//! Tells the application that a message became a dead letter.

use super::OutboxMessage;
use crate::queue::DeadLetterId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A message that has just become a dead letter, for
/// [`on_dead_letter`](crate::OutboxBuilder::on_dead_letter).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeadLetterNotice {
    /// The letter's id.
    pub id: DeadLetterId,
    /// The message, with its queue, key, payload and headers.
    pub message: OutboxMessage,
    /// The consumer that failed.
    pub consumer: String,
    /// How many attempts failed.
    pub attempts: u32,
    /// Why the last one failed.
    pub reason: String,
}

/// The function that the application gave for dead letters, if any.
#[derive(Clone, Default)]
pub(crate) struct DeadLetterHook(Option<Arc<Callback>>);

type Callback = dyn Fn(&DeadLetterNotice) + Send + Sync;

impl DeadLetterHook {
    pub(crate) fn new(callback: impl Fn(&DeadLetterNotice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    /// Calls the function if there is one. Survives its panics.
    pub(crate) fn call(&self, notice: impl FnOnce() -> DeadLetterNotice) {
        let Some(callback) = &self.0 else { return };
        let notice = notice();
        if catch_unwind(AssertUnwindSafe(|| callback(&notice))).is_err() {
            tracing::error!(letter = notice.id.get(), "on_dead_letter panicked");
        }
    }
}
