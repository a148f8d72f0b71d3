//! Handlers running at once, and the connections they take, are bounded per queue.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::Kind;
use outbox_runtime::{Outbox, OutboxBuilder, QueueBuilder, TransactionalMessageHandler};
use outbox_tests::{Engine, every_engine, every_server};
use sea_orm::{ConnectOptions, Database, DatabaseConnection, DatabaseTransaction};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Takes its time with every message, and counts how many of it run at once.
#[derive(Clone)]
struct Slow {
    takes: Duration,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    seen: Seen,
}

impl Slow {
    fn new(millis: u64) -> Self {
        Self {
            takes: Duration::from_millis(millis),
            running: Arc::default(),
            most: Arc::default(),
            seen: Seen::default(),
        }
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    async fn work(&self, message: &OutboxMessage) -> HandlerResult {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(self.takes).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.seen.add(message);
        HandlerResult::Success
    }

    fn serve(&self, queue: QueueBuilder, kind: Kind) -> OutboxBuilder {
        if kind.is_transactional() {
            queue.transactional(self.clone())
        } else {
            queue.leased(self.clone())
        }
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Slow {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.work(message).await
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Slow {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        self.work(message).await
    }
}

/// Commits so many messages to each partition; a partition is the key of its own.
async fn fill(db: &TestDb, queue: &Queue, each: usize) {
    let messages = (0..queue.partitions().count()).flat_map(|partition| {
        let of = move |n| message(&format!("p{partition}"), n).to_partition(partition);
        (0..each).map(of)
    });
    outbox::enqueue_batch(db.connection(), queue, messages)
        .await
        .expect("enqueue_batch");
}

/// Everything arrived, in order, in each partition that [`fill`] filled.
fn assert_complete(seen: &Seen, queue: &Queue, each: usize) {
    let keys = seen.by_key();
    assert_eq!(keys.len(), queue.partitions().count() as usize);
    for (key, numbers) in keys {
        assert_eq!(numbers, (0..each).collect::<Vec<_>>(), "{key}");
    }
}

async fn assert_bounded(db: &TestDb, kind: Kind, bound: u32) {
    let queue = Queue::of("bounded", Partitions::of(16));
    fill(db, &queue, 12).await;
    let slow = Slow::new(3);
    let builder = Outbox::builder(db.connection().clone())
        .handlers_per_queue(if kind.is_transactional() { 99 } else { bound })
        .transactions_per_queue(if kind.is_transactional() { bound } else { 99 })
        .queue("bounded", queue.partitions())
        .batch(4);
    let running = slow.serve(builder, kind).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_complete(&slow.seen, &queue, 12);
    // SQLite has one writer at a time.
    let one_writer = db.engine() == Engine::Sqlite && kind.is_transactional();
    assert_eq!(slow.most(), if one_writer { 1 } else { bound as usize });
}

/// Every partition has a backlog and one at a time runs: all begin before one ends.
async fn assert_turns(db: &TestDb, kind: Kind) {
    const EACH: usize = 25;
    let queue = Queue::of("turns", Partitions::of(16));
    fill(db, &queue, EACH).await;
    let slow = Slow::new(2);
    let builder = Outbox::builder(db.connection().clone())
        .handlers_per_queue(1)
        .transactions_per_queue(1)
        .queue("turns", queue.partitions())
        .batch(1);
    let running = slow.serve(builder, kind).start().await.unwrap();
    slow.seen.reaches(16 * EACH).await;
    running.stop().await;
    assert_complete(&slow.seen, &queue, EACH);
    assert_eq!(slow.most(), 1);
    let order = slow.seen.all();
    let last_began = order.iter().rposition(|text| text.ends_with(":0"));
    let first_ended = order.iter().position(|text| text.ends_with(":24"));
    assert!(last_began < first_ended, "{order:?}");
}

async fn pool_of(db: &TestDb, connections: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(connections)
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::from_secs(60)));
    Database::connect(options).await.unwrap()
}

/// How many connections a pool has opened; it closes none in the time of a test.
fn opened(pool: &DatabaseConnection, engine: Engine) -> u32 {
    match engine {
        Engine::Postgres => pool.get_postgres_connection_pool().size(),
        Engine::MySql => pool.get_mysql_connection_pool().size(),
        Engine::Sqlite => pool.get_sqlite_connection_pool().size(),
    }
}

const WIDE: Queue = Queue::of("wide", Partitions::of(64));

/// Keeps 64 partitions of a leased and of a transactional consumer busy.
async fn serve_64_partitions(db: &TestDb, pool: &DatabaseConnection) {
    fill(db, &WIDE, 5).await;
    let (leased, transactional) = (Gated::new(OnCancel::Ignore), Slow::new(1));
    let running = Outbox::builder(pool.clone())
        .queue("wide", WIDE.partitions())
        .batch(1)
        .leased(leased.clone())
        .queue("wide", WIDE.partitions())
        .consumer("ledger")
        .batch(1)
        .transactional(transactional.clone())
        .start()
        .await
        .unwrap();
    leased.entered(64).await;
    leased.open();
    drained(db).await;
    running.stop().await;
    assert_complete(&leased.seen, &WIDE, 5);
    assert_complete(&transactional.seen, &WIDE, 5);
}

#[every_engine]
async fn leased_handlers_of_a_queue_are_bounded(db: &TestDb) {
    assert_bounded(db, Kind::LeasedEach, 3).await;
}

#[every_engine]
async fn transactions_of_a_queue_are_bounded(db: &TestDb) {
    assert_bounded(db, Kind::TransactionalEach, 2).await;
}

#[every_engine]
async fn no_partition_holds_a_lease_while_it_waits_for_its_turn(db: &TestDb) {
    fill(db, &WIDE, 2).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = Outbox::builder(db.connection().clone())
        .handlers_per_queue(2)
        .queue("wide", WIDE.partitions())
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    let leases = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL";
    for entered in 1..=6 {
        gated.entered(entered).await;
        let held = db.number(leases).await;
        assert!(held <= 2, "{held} leases");
        if entered > 1 {
            gated.let_one_through();
        }
    }
    gated.open();
    drained(db).await;
    running.stop().await;
    assert_complete(&gated.seen, &WIDE, 2);
}

#[every_engine]
async fn every_partition_gets_its_turn_at_a_leased_handler(db: &TestDb) {
    assert_turns(db, Kind::LeasedEach).await;
}

#[every_engine]
async fn every_partition_gets_its_turn_at_a_transaction(db: &TestDb) {
    assert_turns(db, Kind::TransactionalEach).await;
}

#[every_engine]
async fn a_small_pool_suffices_for_64_busy_partitions(db: &TestDb) {
    serve_64_partitions(db, &pool_of(db, 8).await).await;
}

#[every_engine]
async fn a_deep_backlog_of_slow_handlers_starves_no_other_queue(db: &TestDb) {
    let hot = Queue::of("hot", Partitions::of(64));
    fill(db, &hot, 100).await;
    let (slow, seen) = (Slow::new(100), Seen::default());
    let running = Outbox::builder(db.connection().clone())
        .handlers_per_queue(4)
        .queue("hot", hot.partitions())
        .batch(10)
        .leased(slow.clone())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    eventually("full use", async || slow.most() == 4).await;
    for n in 0..20 {
        let began = Instant::now();
        commit(db.connection(), &format!("key{}", n % 5), n).await;
        seen.reaches(n + 1).await;
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
    }
    assert!(slow.seen.count() < 6_000, "it was a backlog");
    running.stop().await;
}

#[every_server]
async fn connections_do_not_grow_with_partitions(db: &TestDb) {
    let pool = pool_of(db, 60).await;
    serve_64_partitions(db, &pool).await;
    // Four for our own statements, four for transactions, and as many on their
    // way back into the pool, where sqlx tests them first.
    let opened = opened(&pool, db.engine());
    assert!(opened <= 24, "{opened} connections");
}
