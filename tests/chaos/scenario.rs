//! What all processes of a run agree on: queues, consumers, keys and tables.
//!
//! A key has a counter row that a producer updates before it enqueues, so that the transactions
//! of one key never overlap and `n` is the order of their commits. Each event has a `mark` that no
//! other event ever had, not even one that was rolled back.

use outbox_runtime::{LeaseConfig, Mode, Partitions, Queue, RetryPolicy};
use outbox_tests::{Engine, TestDb};
use std::time::Duration;

pub(crate) const ORDERS: Queue = Queue::of("orders", Partitions::of(4));
pub(crate) const PARCELS: Queue = Queue::of("parcels", Partitions::of(2));

/// Event types; each key has all of them.
pub(crate) const EVENT_TYPES: [&str; 3] = ["placed", "paid", "sent"];

const KEYS_PER_QUEUE: u32 = 24;

pub(crate) const LEASE: LeaseConfig = LeaseConfig {
    duration: Duration::from_millis(1_500),
    headroom: Duration::from_millis(500),
};

pub(crate) const RETRY: RetryPolicy = RetryPolicy {
    max_attempts: 8,
    base: Duration::from_millis(5),
    max: Duration::from_millis(50),
    jitter: true,
};

/// A consumer of a queue.
pub(crate) struct Consumer {
    pub(crate) queue: Queue,
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    /// How many keys of a partition at a time.
    pub(crate) concurrency: u32,
}

const fn consumer(queue: Queue, name: &'static str, mode: Mode, concurrency: u32) -> Consumer {
    Consumer {
        queue,
        name,
        mode,
        concurrency,
    }
}

pub(crate) static CONSUMERS: [Consumer; 5] = [
    consumer(ORDERS, "mailer", Mode::Leased, 1),
    consumer(ORDERS, "feed", Mode::Leased, 8),
    consumer(ORDERS, "ledger", Mode::Transactional, 1),
    consumer(PARCELS, "tracker", Mode::Leased, 1),
    consumer(PARCELS, "stock", Mode::Transactional, 1),
];

/// What a consumer does with a message each time, whatever else happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It may succeed.
    Fine,
    /// It is rejected.
    Rejected,
    /// It fails until its attempts are used up.
    Hopeless,
}

/// Fates are spread by mark, so that each consumer has its own.
pub(crate) fn fate(consumer: &str, mark: i64) -> Fate {
    let place = CONSUMERS.iter().position(|c| c.name == consumer);
    let place = place.and_then(|place| i64::try_from(place).ok());
    if place == Some(mark % 127) {
        Fate::Rejected
    } else if place == Some(mark % 509) {
        Fate::Hopeless
    } else {
        Fate::Fine
    }
}

pub(crate) fn payload(mark: i64, key: &str, n: i64) -> String {
    format!("{mark} {key} {n}")
}

/// The mark in a payload.
pub(crate) fn mark_of(payload: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(payload).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Every key with its queue.
pub(crate) fn keys() -> Vec<(String, Queue)> {
    let of = |queue: Queue| {
        (0..KEYS_PER_QUEUE).map(move |i| (format!("{}-{i}", queue.name()), queue.clone()))
    };
    of(ORDERS).chain(of(PARCELS)).collect()
}

/// Creates the tables of the run and the watch over leases.
pub(crate) async fn create(db: &TestDb) {
    let id = match db.engine() {
        Engine::Postgres => "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        Engine::MySql => "BIGINT AUTO_INCREMENT PRIMARY KEY",
        Engine::Sqlite => "INTEGER PRIMARY KEY AUTOINCREMENT",
    };
    let engine = match db.engine() {
        Engine::MySql => "ENGINE = InnoDB",
        Engine::Postgres | Engine::Sqlite => "",
    };
    for table in [
        "chaos_key (k VARCHAR(32) PRIMARY KEY, n BIGINT NOT NULL)".to_owned(),
        "chaos_event (mark BIGINT PRIMARY KEY, queue VARCHAR(16) NOT NULL, k VARCHAR(32) NOT NULL, \
            n BIGINT NOT NULL, message_id BIGINT NOT NULL)"
            .to_owned(),
        format!(
            "chaos_ledger (id {id}, consumer VARCHAR(16) NOT NULL, mark BIGINT NOT NULL, \
            message_id BIGINT NOT NULL)"
        ),
        "chaos_lease (rule VARCHAR(64) NOT NULL)".to_owned(),
    ] {
        db.execute(&format!("CREATE TABLE {table} {engine}")).await;
    }
    for (key, _) in keys() {
        db.execute(&format!("INSERT INTO chaos_key VALUES ('{key}', 0)"))
            .await;
    }
    crate::lease_watch::create(db).await;
}
