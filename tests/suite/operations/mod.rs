//! Running an outbox: what can be seen, rolling deploys, other processes.

mod consumers;
mod guide;
mod logs;
mod notify;
mod start;
mod stats;

use outbox::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, OutboxMessage, Partitions, Queue,
};
use std::sync::{Arc, Mutex};

const QUEUE: Queue = Queue::of("operations", Partitions::of(2));

/// Remembers the payloads it is given.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Seen {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        self.0.lock().unwrap().push(text);
        HandlerResult::Success
    }
}

/// Commits a message of a type and returns its id.
async fn commit(db: &sea_orm::DatabaseConnection, event_type: &'static str, text: &str) -> i64 {
    let message = NewMessage::new(event_type, 1, text);
    let id = outbox::enqueue(db, &QUEUE, message).await.expect("enqueue");
    id.get()
}
