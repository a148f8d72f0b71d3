//! On PostgreSQL the claims of many partitions are one statement, in the usual case.

use super::*;
use outbox_runtime::Outbox;
use outbox_tests::postgres;
use sea_orm::{ConnectionTrait, TransactionTrait};

const WIDE: Queue = Queue::of("together-wide", Partitions::of(64));

/// One message for each partition.
async fn one_for_each(db: &TestDb, n: usize) {
    let messages = (0..64).map(|p| message(&format!("k{p}"), n).to_partition(p));
    outbox::enqueue_batch(db.connection(), &WIDE, messages)
        .await
        .unwrap();
}

#[postgres]
async fn partitions_that_are_woken_together_are_claimed_together(db: &TestDb) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let seen = Seen::default();
    let running = Outbox::builder(db.connect().await)
        .queue(WIDE.name(), WIDE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    // The first claim of each partition finds out where its cursor is.
    one_for_each(db, 0).await;
    seen.reaches(64).await;
    drained(db).await;
    let claims = "SELECT COALESCE(SUM(calls), 0)::bigint FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query LIKE '%lease_epoch = %lease_epoch + CASE%'";
    let before = db.number(claims).await;
    for n in 1..=10 {
        one_for_each(db, n).await;
        seen.reaches(64 * (n + 1)).await;
    }
    drained(db).await;
    let made = db.number(claims).await - before;
    // Separate claims would be at least one for each message and one for each release.
    assert!(made < 320, "{made} claims for 640 messages");
    running.stop().await;
    for (key, numbers) in seen.by_key() {
        assert_eq!(numbers, (0..=10).collect::<Vec<_>>(), "{key}");
    }
}

/// Sets something of the cursor of `k`, as another process would.
async fn set_cursor(db: &TestDb, set: &str) {
    let id = partition_id("k");
    db.execute(&format!(
        "UPDATE outbox_cursor SET {set} WHERE partition_id = {id}"
    ))
    .await;
}

/// A key of another partition than that of `k`.
fn another_key() -> String {
    let mut keys = (0..).map(|n| format!("o{n}"));
    keys.find(|key| partition_id(key) != partition_id("k"))
        .unwrap()
}

#[postgres]
async fn a_claim_that_waits_for_a_lock_holds_up_no_later_claim(db: &TestDb) {
    let (seen, other) = (Seen::default(), another_key());
    let running = start_eager(db, &seen).await;
    for n in 0..2 {
        commit(db.connection(), "k", n).await;
        commit(db.connection(), &other, n).await;
        seen.reaches(2 * (n + 1)).await;
    }
    drained(db).await;
    let other_process = db.connect().await.begin().await.unwrap();
    let id = partition_id("k");
    let lock = format!("SELECT 1 FROM outbox_cursor WHERE partition_id = {id} FOR UPDATE");
    other_process.execute_unprepared(&lock).await.unwrap();
    commit(db.connection(), "k", 2).await;
    until_blocked(db).await;
    for n in 2..6 {
        commit(db.connection(), &other, n).await;
        seen.reaches(n + 3).await;
    }
    assert_eq!(seen.by_key()["k"], [0, 1], "its cursor is locked");
    other_process.rollback().await.unwrap();
    seen.reaches(9).await;
    drained(db).await;
    running.stop().await;
    assert_eq!(seen.by_key()["k"], [0, 1, 2]);
    assert_eq!(seen.by_key()[&other], [0, 1, 2, 3, 4, 5]);
}

#[postgres]
async fn a_cursor_that_another_process_has_claimed_is_left_alone(db: &TestDb) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    for n in 0..3 {
        commit(db.connection(), "k", n).await;
        seen.reaches(n + 1).await;
    }
    drained(db).await;
    let theirs = "lease_owner = 'other', lease_epoch = lease_epoch + 1, lease_until = ";
    set_cursor(db, &format!("{theirs}{}", db.from_now(3_600_000))).await;
    commit(db.connection(), "k", 3).await;
    // Another partition goes on meanwhile, often enough for the first to have tried.
    let other = another_key();
    for n in 0..20 {
        let from = seen.count();
        commit(db.connection(), &other, n).await;
        seen.reaches(from + 1).await;
    }
    assert_eq!(seen.by_key()["k"], [0, 1, 2], "another process has it");
    set_cursor(db, "lease_owner = NULL, lease_until = NULL").await;
    seen.reaches(24).await;
    drained(db).await;
    running.stop().await;
    assert_eq!(seen.by_key()["k"], [0, 1, 2, 3]);
}

#[postgres]
async fn a_message_on_record_as_failed_is_not_claimed_before_it_is_due(db: &TestDb) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    commit(db.connection(), "k", 0).await;
    seen.reaches(1).await;
    drained(db).await;
    let next = processed(db, "default", "k").await + 1;
    let id = partition_id("k");
    db.execute(&format!(
        "INSERT INTO outbox_attempt (partition_id, consumer, seq, failures, not_before) \
         VALUES ({id}, 'default', {next}, 1, {})",
        db.from_now(1_500)
    ))
    .await;
    let began = std::time::Instant::now();
    commit(db.connection(), "k", 1).await;
    seen.reaches(2).await;
    assert!(began.elapsed() >= Duration::from_millis(1_400));
    drained(db).await;
    running.stop().await;
}
