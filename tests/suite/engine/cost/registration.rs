//! What it costs to register queues and consumers, and that no start registers them twice.

use super::*;
use crate::engine::support::statement_counts::{calls, count_statements, listed};
use outbox::testing::TestOutbox;
use outbox_runtime::Outbox;
use outbox_tests::{every_engine, mysql, postgres};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};

const WIDE: Queue = Queue::of("wide", Partitions::of(64));

/// Checks and registers as a start does, and runs nothing.
async fn register(db: &DatabaseConnection) {
    let wide = Outbox::builder(db.clone()).queue(WIDE.name(), WIDE.partitions());
    TestOutbox::of(wide.leased(Seen::default())).await;
}

/// Two statements check the schema. The first start then reads the queue. A transaction (isolation,
/// begin, commit) writes the queue, locks it and writes its partitions. The start reads the
/// consumer. A transaction takes the lock, reads the other consumers, and writes the consumer and
/// its cursors. The last statement reads all queues to which this binary only produces.
const FIRST_START: i64 = 2 + 1 + (3 + 3) + 1 + (3 + 4) + 1;
/// The second start reads the queue and the consumer, notes that the consumer was seen, and reads
/// the other queues.
const SECOND_START: i64 = 2 + 1 + 1 + 1 + 1;
/// On PostgreSQL each asks in which schemas the tables are, too.
const SCHEMA_LOOKUP: i64 = 1;

#[postgres]
async fn a_start_takes_few_statements_for_64_partitions_and_a_second_start_fewer(db: &TestDb) {
    // PostgreSQL does not count these each time.
    const ALL: &str = "query NOT LIKE 'SET TRANSACTION%'";
    const LOCKS: &str = "query LIKE '%FOR%UPDATE%'";
    count_statements(db).await;
    let own = db.connect().await;
    let before = calls(db, ALL).await;
    register(&own).await;
    let first = calls(db, ALL).await - before;
    assert_eq!(
        first,
        FIRST_START - 2 + SCHEMA_LOOKUP,
        "{}",
        listed(db).await
    );
    let (before, locks) = (calls(db, ALL).await, calls(db, LOCKS).await);
    register(&own).await;
    let second = calls(db, ALL).await - before;
    assert_eq!(second, SECOND_START + SCHEMA_LOOKUP, "{}", listed(db).await);
    let locks = calls(db, LOCKS).await - locks;
    assert_eq!(locks, 0, "nothing is locked");
}

/// How many statements the only connection of a MySQL pool has run.
async fn questions(only: &DatabaseConnection) -> i64 {
    let show = "SHOW SESSION STATUS LIKE 'Questions'";
    let statement = Statement::from_string(only.get_database_backend(), show);
    let row = only.query_one_raw(statement).await.unwrap().unwrap();
    let count: String = row.try_get_by_index(1).unwrap();
    count.parse().unwrap()
}

#[mysql]
async fn a_start_takes_as_few_statements_on_mysql(db: &TestDb) {
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(1).sqlx_logging(false);
    options.test_before_acquire(false);
    let only = Database::connect(options).await.unwrap();
    let before = questions(&only).await;
    register(&only).await;
    let after_first = questions(&only).await;
    register(&only).await;
    let after_second = questions(&only).await;
    let (first, second) = (after_first - before - 1, after_second - after_first - 1);
    assert_eq!(first, FIRST_START);
    assert_eq!(second, SECOND_START);
}

#[every_engine]
async fn a_partition_that_is_missing_is_added_at_the_next_start(db: &TestDb) {
    register(db.connection()).await;
    let last = WIDE.id() | 63;
    db.execute(&format!("DELETE FROM outbox_partition WHERE id = {last}"))
        .await;
    register(db.connection()).await;
    let rows = db
        .column("SELECT id FROM outbox_partition ORDER BY id")
        .await;
    assert!(rows.into_iter().eq(WIDE.id()..=last));
}

#[every_engine]
async fn starts_at_once_register_everything_once(db: &TestDb) {
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(db.connect().await);
    }
    futures_util::future::join_all(connections.iter().map(register)).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_partition").await, 64);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_consumer").await, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_cursor").await, 64);
}
