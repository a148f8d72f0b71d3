//! The engine: everything committed is delivered, in order per key, whatever happens.

mod delivery;
mod failures;
mod order;

use outbox::{NewMessage, Partitions, Queue, enqueue};
use outbox_runtime::{Ctx, HandlerResult, LeasedMessageHandler, OutboxMessage};
use outbox_tests::{TestDb, eventually};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const QUEUE: Queue = Queue::of("orders", Partitions::of(4));

/// A message a test makes: `key` and the `n`-th of that key.
fn message(key: &str, n: usize) -> NewMessage {
    NewMessage::new("step", key.to_owned(), format!("{key}:{n}"))
}

/// Commits one message of a key on a connection.
async fn commit(db: &impl sea_orm::ConnectionTrait, key: &str, n: usize) {
    enqueue(db, &QUEUE, message(key, n)).await.expect("enqueue");
}

/// What a handler saw, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn add(&self, message: &OutboxMessage) {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        self.0.lock().unwrap().push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// The numbers seen of each key, in order.
    fn by_key(&self) -> BTreeMap<String, Vec<usize>> {
        let mut keys: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for text in self.all() {
            let (key, n) = text.split_once(':').expect("key:n");
            keys.entry(key.to_owned())
                .or_default()
                .push(n.parse().expect("n"));
        }
        keys
    }

    async fn reaches(&self, count: usize) {
        eventually(&format!("{count} deliveries"), async || {
            self.count() >= count
        })
        .await;
    }
}

/// Remembers what it is given.
#[async_trait::async_trait]
impl LeasedMessageHandler for Seen {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.add(message);
        HandlerResult::Success
    }
}

/// Nothing is left in the queue's tables and no lease is held.
async fn drained(db: &TestDb) {
    eventually("empty tables", async || {
        let mut rows = 0;
        for table in [
            "outbox_incoming",
            "outbox_outgoing",
            "outbox_body",
            "outbox_attempt",
        ] {
            rows += db.number(&format!("SELECT COUNT(*) FROM {table}")).await;
        }
        let leases = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL";
        rows + db.number(leases).await == 0
    })
    .await;
}
