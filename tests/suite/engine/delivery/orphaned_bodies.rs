//! Orphaned bodies: a producer on a bare connection leaves one if it fails between its two
//! statements. On PostgreSQL both are one statement, so there are none.

use super::*;
use crate::engine::support::statement_counts::{calls, count_statements, listed};
use outbox_tests::{Engine, engines, mysql, postgres};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement, TransactionTrait,
};

/// No process serves it: its messages stay.
const NOBODY: Queue = Queue::of("nobody", Partitions::of(1));

/// More than one pass reads.
const MANY: usize = 6_000;

/// A body without a message.
async fn leave_orphan(db: &TestDb) {
    let empty = if db.engine() == Engine::Sqlite {
        "x''"
    } else {
        "''"
    };
    let (key, now) = (db.quoted("key"), db.from_now(0));
    db.execute(&format!(
        "INSERT INTO outbox_body \
            (queue_id, slot, nonce, event_type, {key}, payload, enqueued_at) \
         VALUES (4096, 0, 9, 't', {empty}, {empty}, {now})"
    ))
    .await;
}

/// Lets two hours pass for all bodies there are.
async fn age(db: &TestDb) {
    let old = db.from_now(-2 * 3_600_000);
    db.execute(&format!("UPDATE outbox_body SET enqueued_at = {old}"))
        .await;
}

async fn bodies(db: &TestDb) -> i64 {
    db.number("SELECT COUNT(*) FROM outbox_body").await
}

async fn start(db: &DatabaseConnection) -> outbox_runtime::OutboxHandle {
    orders(db).leased(Seen::default()).start().await.unwrap()
}

#[engines(mysql, sqlite)]
async fn a_body_without_a_message_is_deleted_after_an_hour(db: &TestDb) {
    leave_orphan(db).await;
    commit_many(db, &NOBODY, "waits", 0..1).await;
    age(db).await;
    leave_orphan(db).await;
    let running = start(db.connection()).await;
    eventually("the orphan's end", async || bodies(db).await == 2).await;
    running.stop().await;
    let kept = db.column("SELECT id FROM outbox_body ORDER BY id").await;
    assert_eq!(kept, [2, 3], "one waits, one is young");
}

#[engines(mysql, sqlite)]
async fn an_orphaned_body_behind_many_old_messages_is_deleted_too(db: &TestDb) {
    commit_many(db, &NOBODY, "waits", 0..MANY).await;
    leave_orphan(db).await;
    let paused = start(db.connection()).await;
    paused.outbox().pause("orders").await.unwrap();
    commit_many(db, &QUEUE, "paused", 0..10).await;
    eventually("their numbers", async || {
        db.number("SELECT COUNT(*) FROM outbox_outgoing").await == 10
    })
    .await;
    paused.stop().await;
    leave_orphan(db).await;
    age(db).await;
    let waiting = i64::try_from(MANY).unwrap() + 10;
    assert_eq!(bodies(db).await, waiting + 2);
    let running = start(db.connection()).await;
    eventually("the orphans' end", async || bodies(db).await == waiting).await;
    running.stop().await;
}

/// How many transactions the only connection of a MySQL pool has begun.
async fn begun(only: &DatabaseConnection) -> i64 {
    let show = "SHOW SESSION STATUS LIKE 'Com_begin'";
    let statement = Statement::from_string(only.get_database_backend(), show);
    let row = only.query_one_raw(statement).await.unwrap().unwrap();
    let count: String = row.try_get_by_index(1).unwrap();
    count.parse().unwrap()
}

#[mysql]
async fn one_process_at_a_time_looks_for_orphaned_bodies(db: &TestDb) {
    leave_orphan(db).await;
    age(db).await;
    // As another process that is looking for orphaned bodies.
    let other = db.connect().await.begin().await.unwrap();
    other
        .execute_unprepared("SELECT 1 FROM outbox_schema FOR UPDATE")
        .await
        .unwrap();
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(1).sqlx_logging(false);
    let only = Database::connect(options).await.unwrap();
    let running = start(&only).await;
    let before = begun(&only).await;
    eventually("two passes that leave it to the other", async || {
        begun(&only).await >= before + 2
    })
    .await;
    assert_eq!(bodies(db).await, 1);
    other.rollback().await.unwrap();
    eventually("the orphan's end", async || bodies(db).await == 0).await;
    running.stop().await;
}

#[postgres]
async fn a_start_on_postgres_does_not_scan_all_bodies(db: &TestDb) {
    count_statements(db).await;
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    commit(db.connection(), "k", 0).await;
    seen.reaches(1).await;
    drained(db).await;
    running.stop().await;
    // Not this test's own counting. All others read bodies by their id.
    let scans = calls(
        db,
        "query LIKE 'SELECT%FROM outbox_body%' AND query NOT LIKE 'SELECT COUNT%'",
    );
    assert_eq!(scans.await, 0, "{}", listed(db).await);
}
