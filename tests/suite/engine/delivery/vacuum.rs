//! Vacuum deletes the messages that every consumer has passed, and only those.

use super::*;
use crate::engine::support::vacuum_passes::bodies_of;
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::{Engine, PrivateServer, engines, every_engine, every_server, run_at};
use sea_orm::{ConnectionTrait, TransactionTrait};

#[every_engine]
async fn twenty_thousand_messages_leave_nothing_behind(db: &TestDb) {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    #[derive(Clone)]
    struct Count(Arc<std::sync::atomic::AtomicUsize>);
    #[async_trait::async_trait]
    impl outbox_runtime::LeasedHandler for Count {
        async fn handle(&self, batch: &mut outbox_runtime::Batch<'_>, _: &Ctx) -> HandlerResult {
            let taken = batch.next_chunk(usize::MAX).len();
            self.0.fetch_add(taken, std::sync::atomic::Ordering::SeqCst);
            HandlerResult::Success
        }
    }
    let running = Outbox::builder(db.connection().clone())
        .profile(OutboxProfile::high_throughput())
        .queue("orders", QUEUE.partitions())
        .leased_batch(Count(count.clone()))
        .start()
        .await
        .unwrap();
    for round in 0..20 {
        let messages = (0..1_000).map(|n| message(&format!("key{}", n % 16), round * 1_000 + n));
        outbox::enqueue_batch(db.connection(), &QUEUE, messages)
            .await
            .unwrap();
    }
    drained(db).await;
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 20_000);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    running.stop().await;
}

/// A message that committed late is older than its neighbour with the lower
/// number, and is deleted first; that must not make vacuum forget the other.
#[every_server]
async fn retention_forgets_no_message_when_a_later_one_is_older(db: &TestDb) {
    let seen = Seen::default();
    let mut profile = OutboxProfile::default();
    profile.vacuum.idle_interval = Duration::from_millis(20);
    let running = Outbox::builder(db.connection().clone())
        .profile(profile)
        .retention(Duration::from_millis(1_500))
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let late = db.connection().begin().await.unwrap();
    commit(&late, "k", 0).await;
    let born = std::time::Instant::now();
    eventually("a difference in age", async || {
        born.elapsed() > Duration::from_millis(900)
    })
    .await;
    commit(db.connection(), "k", 1).await;
    seen.reaches(1).await;
    late.commit().await.unwrap();
    seen.reaches(2).await;
    assert_eq!(seen.all(), ["k:1", "k:0"]);
    assert_eq!(bodies_of(db, "step").await, 2, "both are kept for a while");
    eventually("the older one's end", async || {
        bodies_of(db, "step").await < 2
    })
    .await;
    drained(db).await;
    running.stop().await;
}

/// Where a cursor moves and its records go in two statements, a process may die in between.
#[engines(mysql, sqlite)]
async fn records_of_attempts_behind_the_cursor_are_deleted(db: &TestDb) {
    let seen = Seen::default();
    let queue = eager_orders(db.connection());
    let running = queue.leased(seen.clone()).start().await.unwrap();
    commit(db.connection(), "k", 0).await;
    seen.reaches(1).await;
    drained(db).await;
    let partition_id = partition_id("k");
    let attempt = format!("{partition_id}, 'default', 1, 1, {}", db.from_now(0));
    db.execute(&format!(
        "INSERT INTO outbox_attempt (partition_id, consumer, seq, failures, not_before) \
         VALUES ({attempt})"
    ))
    .await;
    commit(db.connection(), "k", 1).await;
    seen.reaches(2).await;
    drained(db).await;
    running.stop().await;
}

/// As after a crash that brings rows back and of which no connection tells.
#[every_engine]
async fn rows_that_come_back_where_vacuum_has_been_are_deleted_without_any_error(db: &TestDb) {
    let seen = Seen::default();
    let mut profile = OutboxProfile::default();
    profile.vacuum.idle_interval = Duration::from_millis(20);
    let running = Outbox::builder(db.connection().clone())
        .profile(profile)
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..10).await;
    seen.reaches(10).await;
    drained(db).await;
    let tx = db.connection().begin().await.unwrap();
    for seq in 1..=3 {
        let id = enqueue(&tx, &QUEUE, message("k", 0)).await.unwrap();
        for sql in [
            format!("DELETE FROM outbox_incoming WHERE id = {id}"),
            format!(
                "INSERT INTO outbox_outgoing (partition_id, seq, id) VALUES ({}, {seq}, {id})",
                partition_id("k")
            ),
        ] {
            tx.execute_unprepared(&sql).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(seen.count(), 10, "they were delivered long ago");
}

/// Delivers 200 messages, waits until they are deleted, and crashes the server at once.
/// Says how many rows came back.
async fn crash_after_deletion(db: &TestDb, server: &PrivateServer, seen: &Seen) -> i64 {
    let before = seen.count();
    commit_many(db, &QUEUE, "k", before..before + 200).await;
    drained(db).await;
    server.crash().await;
    let fresh = db.connect().await;
    let rows = sea_orm::Statement::from_string(
        sea_orm::DbBackend::Postgres,
        "SELECT COUNT(*) FROM outbox_outgoing",
    );
    let rows = fresh.query_one_raw(rows).await;
    rows.unwrap().unwrap().try_get_by_index(0).unwrap()
}

/// Crashes the server five times just after vacuum has deleted everything. What comes back must
/// be deleted again.
async fn crashes(db: &TestDb, server: &PrivateServer, vacuum_every: Duration) {
    let seen = Seen::default();
    let mut profile = OutboxProfile::low_latency();
    profile.vacuum.idle_interval = vacuum_every;
    // While the server is down, the reconciler asks and learns of it.
    profile.reconciler.idle_interval = Duration::from_millis(20);
    // If the server keeps a claim and loses its acknowledgement, the messages are delivered again
    // when the lease has ended.
    let lease = LeaseConfig {
        duration: Duration::from_secs(1),
        headroom: Duration::from_millis(300),
    };
    let running = Outbox::builder(db.connect().await)
        .profile(profile)
        .queue("orders", QUEUE.partitions())
        .lease(lease)
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let mut back = 0;
    for _ in 0..5 {
        back += crash_after_deletion(db, server, &seen).await;
        drained(db).await;
    }
    assert!(back > 0, "no crash brought anything back");
    running.stop().await;
}

/// A commit that does not wait for the disk may be lost.
fn what_a_crash_brings_back_is_deleted(vacuum_every: Duration) {
    let server = PrivateServer::start(Engine::Postgres);
    let url = server.url().to_owned();
    run_at(Engine::Postgres, &url, move |db| {
        Box::pin(async move {
            // So that commits which do not wait for the disk are not on it for long.
            db.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
                .await;
            db.execute("SELECT pg_reload_conf()").await;
            crashes(db, &server, vacuum_every).await;
        })
    });
}

#[test]
fn messages_that_a_server_crash_brought_back_are_deleted_again() {
    what_a_crash_brings_back_is_deleted(Duration::from_millis(200));
}

/// Vacuum itself need not meet an error: the pool may give it a new connection.
#[test]
fn vacuum_starts_over_after_any_lost_connection() {
    what_a_crash_brings_back_is_deleted(Duration::from_secs(3_600));
}
