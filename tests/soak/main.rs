//! A million messages through the engine, on each database: everything arrives
//! in order, tables end empty, memory stays flat. `scripts/test --soak` runs it;
//! with `concurrency` it compares many keys at a time with one, on PostgreSQL.

#![allow(clippy::print_stdout)]

mod concurrency;

use outbox::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, Outbox, OutboxMessage, Partitions, Queue,
    TransactionalMessageHandler, enqueue_batch,
};
use outbox_tests::{Engine, TestDb, run};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const QUEUE: Queue = Queue::of("soak", Partitions::of(4));
const KEYS: u64 = 1_000;
const LIST: u64 = 500;
/// Messages enqueued and not yet delivered, at most.
const AHEAD: u64 = 50_000;

/// Checks the order of each key as it counts. Seeing a message again is allowed:
/// a leased one after a lost lease, a transactional one after a rollback.
#[derive(Clone, Default)]
struct Check {
    delivered: Arc<AtomicU64>,
    again: Arc<AtomicU64>,
    wrong: Arc<AtomicU64>,
    next: Arc<Mutex<HashMap<u64, u64>>>,
}

impl Check {
    fn see(&self, message: &OutboxMessage) {
        let text = String::from_utf8_lossy(message.payload());
        let n: u64 = text.trim_end().parse().expect("a number");
        let mut next = self.next.lock().expect("lock");
        let expected = next.entry(n % KEYS).or_insert(n % KEYS);
        let count = match n.cmp(expected) {
            std::cmp::Ordering::Equal => {
                *expected += KEYS;
                &self.delivered
            }
            std::cmp::Ordering::Less => &self.again,
            std::cmp::Ordering::Greater => &self.wrong,
        };
        count.fetch_add(1, Ordering::Release);
    }

    fn assert_right(&self) {
        let wrong = self.wrong.load(Ordering::Acquire);
        assert_eq!(wrong, 0, "messages out of order or lost");
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Check {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.see(message);
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Check {
    async fn handle(
        &self,
        _: &sea_orm::DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        self.see(message);
        HandlerResult::Success
    }
}

fn main() {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .init();
    if std::env::args().nth(1).as_deref() == Some("concurrency") {
        return run(Engine::Postgres, true, |db| {
            Box::pin(concurrency::compare(db))
        });
    }
    let total: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse().expect("a number of messages"),
        None => 1_000_000,
    };
    for engine in [Engine::Postgres, Engine::MySql, Engine::Sqlite] {
        run(engine, true, |db| Box::pin(soak(db, total)));
    }
}

async fn soak(db: &TestDb, total: u64) {
    let (leased, transactional) = (Check::default(), Check::default());
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name().to_owned(), QUEUE.partitions())
        .leased(leased.clone())
        .queue(QUEUE.name().to_owned(), QUEUE.partitions())
        .consumer("ledger")
        .transactional(transactional.clone())
        .start()
        .await
        .expect("start");
    let began = Instant::now();
    let delivered = || {
        let (a, b) = (&leased.delivered, &transactional.delivered);
        a.load(Ordering::Acquire).min(b.load(Ordering::Acquire))
    };
    let check = || {
        leased.assert_right();
        transactional.assert_right();
    };
    let mut early = 0;
    for first in (0..total).step_by(LIST.try_into().expect("small")) {
        let list = (first..(first + LIST).min(total))
            .map(|n| NewMessage::new("soak", n % KEYS, format!("{n:<200}")));
        enqueue_batch(db.connection(), &QUEUE, list)
            .await
            .expect("enqueue");
        check();
        while first.saturating_sub(delivered()) > AHEAD {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if first % (total / 10).max(1) < LIST {
            let seconds = began.elapsed().as_secs();
            println!(
                "{:?}: {first} enqueued, {} delivered, {} KiB resident, {seconds} s",
                db.engine(),
                delivered(),
                resident()
            );
            if first >= total / 5 && early == 0 {
                early = resident();
            }
        }
    }
    let deadline = Instant::now() + Duration::from_secs(600);
    while delivered() < total {
        check();
        assert!(
            Instant::now() < deadline,
            "only {} of {total} arrived",
            delivered()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = began.elapsed();
    for table in [
        "outbox_incoming",
        "outbox_outgoing",
        "outbox_body",
        "outbox_attempt",
        "outbox_dead_letter",
    ] {
        while db.number(&format!("SELECT COUNT(*) FROM {table}")).await > 0 {
            assert!(Instant::now() < deadline, "{table} is not empty");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let end = resident();
    println!(
        "{:?}: {total} messages to two consumers in {took:.1?}, {} per second, {early} -> {end} KiB",
        db.engine(),
        u128::from(total) * 1000 / took.as_millis().max(1)
    );
    let again = [&leased.again, &transactional.again].map(|n| n.load(Ordering::Acquire));
    println!(
        "{:?}: {again:?} seen again (leased, transactional)",
        db.engine()
    );
    assert!(
        end < early + early / 4 + 16 * 1024,
        "memory grew from {early} to {end} KiB"
    );
    running.stop().await;
}

/// Resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
