//! Where the tables are: a schema of PostgreSQL, a database of MySQL, and never two of them.

mod databases;
mod refusals;
mod schemas;

use outbox::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, Outbox, OutboxHandle, OutboxMessage,
    Partitions, Queue, enqueue, enqueue_batch,
};
use outbox_tests::{TestDb, eventually};
use sea_orm::sqlx::postgres::PgListener;
use sea_orm::{ConnectOptions, Database, DatabaseConnection, TransactionTrait};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const QUEUE: Queue = Queue::of("shared-name", Partitions::of(4));

/// The nine tables, and the one that has their version.
const TABLES: usize = 10;

/// Remembers the payloads it is given, and rejects `reject` unless it was requeued.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    /// In alphabetical order.
    fn all(&self) -> Vec<String> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        all
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Seen {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let requeued = message.headers().get(outbox::REQUEUED_FROM).is_some();
        let rejected = text == "reject" && !requeued;
        self.0.lock().unwrap().push(text);
        if rejected {
            HandlerResult::reject("not this one")
        } else {
            HandlerResult::Success
        }
    }
}

/// Connections to a PostgreSQL database with this `search_path`: schemas with commas between
/// them and no spaces.
async fn connect_in(db: &TestDb, search_path: &str) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(20)
        .sqlx_logging(false)
        .set_schema_search_path(search_path);
    Database::connect(options)
        .await
        .expect("the test's own database")
}

/// Every schema that has outbox tables, with their number.
async fn places(db: &TestDb) -> Vec<String> {
    db.texts(
        "SELECT table_schema || ' ' || COUNT(*) FROM information_schema.tables \
         WHERE table_name LIKE 'outbox\\_%' GROUP BY table_schema ORDER BY table_schema",
    )
    .await
}

fn describe(db: &DatabaseConnection, seen: &Seen) -> outbox::OutboxBuilder {
    Outbox::builder(db.clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .leased(seen.clone())
}

async fn start(db: &DatabaseConnection, seen: &Seen) -> OutboxHandle {
    describe(db, seen).start().await.unwrap()
}

/// The refusal of a start.
async fn start_error(db: &DatabaseConnection) -> outbox::StartError {
    let started = describe(db, &Seen::default()).start().await;
    started.err().expect("it must not start")
}

/// Commits twenty messages that begin with `name`, half of them one at a time.
async fn commit_twenty(db: &DatabaseConnection, name: &str) -> Vec<String> {
    let mut texts: Vec<String> = (0..20).map(|n| format!("{name}{n}")).collect();
    let message = |(n, text): (usize, &String)| NewMessage::new("step", n, text.clone());
    let (alone, listed) = texts.split_at(10);
    for numbered in alone.iter().enumerate() {
        enqueue(db, &QUEUE, message(numbered)).await.unwrap();
    }
    let tx = db.begin().await.unwrap();
    let list = listed.iter().enumerate().map(message);
    enqueue_batch(&tx, &QUEUE, list).await.unwrap();
    tx.commit().await.unwrap();
    texts.sort_unstable();
    texts
}

/// Two outboxes with the same queue deliver at the same time: each handles its own messages, and
/// the letter of one is not among those of the other. With a PostgreSQL database both notify there.
async fn each_handles_its_own(places: [&DatabaseConnection; 2], notify: Option<&TestDb>) {
    let seen = [Seen::default(), Seen::default()];
    let mut running = Vec::new();
    for (db, seen) in places.into_iter().zip(&seen) {
        let mut builder = describe(db, seen);
        if notify.is_some() {
            builder = builder.notify();
        }
        running.push(builder.start().await.unwrap());
    }
    let listener = match notify {
        Some(db) => Some(listen_beside_two(db).await),
        None => None,
    };
    let (one, other) = tokio::join!(
        commit_twenty(places[0], "one "),
        commit_twenty(places[1], "other ")
    );
    let reject = NewMessage::new("step", 1, "reject");
    enqueue(places[0], &QUEUE, reject).await.unwrap();
    for running in &running {
        running.drained().await.unwrap();
    }
    if let Some(listener) = listener {
        hear(listener).await;
    }
    let mut with_rejected = one;
    with_rejected.push("reject".to_owned());
    assert_eq!(seen[0].all(), with_rejected);
    assert_eq!(seen[1].all(), other);
    let mut letters = Vec::new();
    for running in &running {
        let found = running.outbox().dead_letters();
        let all = outbox::DeadLetterFilter::new();
        letters.push(found.count(&all).await.unwrap());
    }
    assert_eq!(letters, [1, 0]);
    for running in running {
        assert!(running.stop().await.clean);
    }
}

/// A listener of the test's own: what it hears the two outboxes hear, whichever of them said it.
async fn listen_beside_two(db: &TestDb) -> PgListener {
    let mut listener = PgListener::connect(db.url()).await.unwrap();
    listener.listen("outbox").await.unwrap();
    let listening = "SELECT COUNT(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    eventually("three listeners", async || db.number(listening).await == 3).await;
    listener
}

/// Waits for a notification that names [`QUEUE`]. Other tests of this process enqueue too: their
/// queues may be named beside it, or alone.
async fn hear(mut listener: PgListener) {
    let id = QUEUE.id().to_string();
    let named = async {
        loop {
            let notification = listener.recv().await.unwrap();
            if notification.payload().split(',').any(|named| named == id) {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), named).await;
    waited.expect("a notification of the queue");
}
