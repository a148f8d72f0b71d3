//! Secrets stay secret, texts stay texts, and few rights are enough.

mod roles;
mod secrets;
mod statements;

use outbox::{Ctx, HandlerResult, LeasedMessageHandler, OutboxMessage, Partitions, RetryPolicy};
use std::time::Duration;

const ONE: Partitions = Partitions::of(1);

/// Twice, at once.
const TWICE: RetryPolicy = RetryPolicy {
    max_attempts: 2,
    base: Duration::from_millis(1),
    max: Duration::from_millis(1),
    jitter: false,
};

/// Does what the event type says.
#[derive(Clone, Default)]
struct Obedient {
    /// What it says when it fails.
    reason: String,
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Obedient {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        match message.event_type() {
            "fail" => HandlerResult::retry(&self.reason),
            "reject" => HandlerResult::reject(&self.reason),
            "panic" => panic!("{}", self.reason),
            _ => HandlerResult::Success,
        }
    }
}
