//! The engine: everything committed is delivered, in order per key, whatever happens.
//!
//! Each folder is about one promise. What all of them use is here and in `support`.

mod concurrency;
mod cost;
mod crash;
mod delivery;
mod failures;
mod lifecycle;
mod liveness;
mod once;
mod order;
mod support;

use outbox::{NewMessage, Partitions, Queue, enqueue};
use outbox_runtime::{
    Ctx, HandlerResult, LeaseConfig, LeasedMessageHandler, OutboxMessage, RetryPolicy,
};
use outbox_tests::{TestDb, eventually};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const QUEUE: Queue = Queue::of("orders", Partitions::of(4));

/// A message a test makes: `key` and the `n`-th of that key.
fn message(key: &str, n: usize) -> NewMessage {
    NewMessage::new("step", key.to_owned(), format!("{key}:{n}"))
}

/// Commits one message of a key on a connection.
async fn commit(db: &impl sea_orm::ConnectionTrait, key: &str, n: usize) {
    enqueue(db, &QUEUE, message(key, n)).await.expect("enqueue");
}

/// Commits messages `from..to` of a key in one transaction.
async fn commit_many(db: &TestDb, queue: &Queue, key: &str, numbers: std::ops::Range<usize>) {
    let messages = numbers.map(|n| message(key, n));
    outbox::enqueue_batch(db.connection(), queue, messages)
        .await
        .expect("enqueue_batch");
}

/// Begins to describe an outbox whose first consumer is one of [`QUEUE`].
fn orders(db: &sea_orm::DatabaseConnection) -> outbox_runtime::QueueBuilder {
    outbox_runtime::Outbox::builder(db.clone()).queue("orders", QUEUE.partitions())
}

/// The same, of an outbox that polls often.
fn eager_orders(db: &sea_orm::DatabaseConnection) -> outbox_runtime::QueueBuilder {
    outbox_runtime::Outbox::builder(db.clone())
        .profile(outbox_runtime::OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
}

/// Starts such an outbox with a leased handler.
async fn start_eager(db: &TestDb, seen: &Seen) -> outbox_runtime::OutboxHandle {
    let queue = eager_orders(&db.connect().await);
    queue.leased(seen.clone()).start().await.unwrap()
}

/// Waits until some session of a PostgreSQL database waits for a lock.
async fn until_blocked(db: &TestDb) {
    let waiting = "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("a session that waits for a lock", async || {
        db.number(waiting).await > 0
    })
    .await;
}

/// Retries after a millisecond, that often.
fn soon(max_attempts: u32) -> RetryPolicy {
    RetryPolicy {
        max_attempts,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
        jitter: false,
    }
}

/// For tests in which leases end: cancelled after 400 ms, dropped after 500.
const SHORT: LeaseConfig = LeaseConfig {
    duration: Duration::from_millis(600),
    headroom: Duration::from_millis(200),
};

/// The partition of a key of [`QUEUE`].
fn partition_id(key: &str) -> i64 {
    QUEUE.id() | i64::from(QUEUE.partition_of_key(key.as_bytes()))
}

/// How far a consumer is in the partition of a key of [`QUEUE`].
async fn processed(db: &TestDb, consumer: &str, key: &str) -> i64 {
    let partition_id = partition_id(key);
    db.number(&format!(
        "SELECT processed_seq FROM outbox_cursor \
         WHERE partition_id = {partition_id} AND consumer = '{consumer}'"
    ))
    .await
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
    nothing_is_left(db, "IS NOT NULL").await;
}

/// Nothing is left in the queue's tables. A process that was killed with nothing left to do leaves
/// a lease, which is over.
async fn drained_after_a_kill(db: &TestDb) {
    nothing_is_left(db, &format!("> {}", db.from_now(0))).await;
}

async fn nothing_is_left(db: &TestDb, held: &str) {
    let leases = format!("outbox_cursor WHERE lease_until {held}");
    let left = async || {
        let mut left = Vec::new();
        for rows in [
            "outbox_incoming",
            "outbox_outgoing",
            "outbox_body",
            "outbox_attempt",
            &leases,
        ] {
            let count = db.number(&format!("SELECT COUNT(*) FROM {rows}")).await;
            if count > 0 {
                left.push(format!("{count} in {rows}"));
            }
        }
        left
    };
    let last = Mutex::new(Vec::new());
    let empty = async || {
        let left = left().await;
        let empty = left.is_empty();
        *last.lock().unwrap() = left;
        empty
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while !empty().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    if waited.await.is_err() {
        panic!(
            "waited 30 s in vain for empty tables: {:?}",
            last.lock().unwrap()
        );
    }
}
