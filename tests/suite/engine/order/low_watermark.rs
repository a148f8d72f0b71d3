//! On PostgreSQL a sequencer does not read below the low watermark: no unsequenced row can appear
//! there.

use super::*;
use outbox_tests::postgres;
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::sync::atomic::{AtomicBool, Ordering};

async fn low_id(db: &TestDb) -> i64 {
    db.number("SELECT low_id FROM outbox_queue").await
}

/// The id of the last body there was.
async fn last_id(db: &TestDb) -> i64 {
    db.number("SELECT last_value FROM pg_sequences WHERE sequencename = 'outbox_body_id_seq'")
        .await
}

/// Delivers lists of 600 until the low watermark is above `id`. It rises with a later pass than the
/// one that took the messages, once no older transaction is open.
async fn until_above(db: &TestDb, seen: &Seen, id: i64) {
    let count = || seen.by_key().get("filler").map_or(0, Vec::len);
    for _ in 0..50 {
        let from = count();
        commit_many(db, &QUEUE, "filler", from..from + 600).await;
        eventually("fillers", async || count() == from + 600).await;
        if low_id(db).await > id {
            return;
        }
    }
    panic!(
        "the low watermark does not rise: {} of {id}",
        low_id(db).await
    );
}

#[postgres]
async fn the_low_watermark_stays_below_an_open_transaction_and_its_message_is_delivered(
    db: &TestDb,
) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    until_above(db, &seen, 0).await;
    let risen = low_id(db).await;

    let late = db.connect().await.begin().await.unwrap();
    commit(&late, "late", 0).await;
    let late_id = last_id(db).await;
    for n in 0..5 {
        let from = seen.count();
        commit_many(db, &QUEUE, &format!("passing-{n}"), 0..600).await;
        seen.reaches(from + 600).await;
    }
    let low = low_id(db).await;
    assert!((risen..late_id).contains(&low), "{low}, {late_id} is open");

    late.commit().await.unwrap();
    eventually("the late one", async || seen.by_key().contains_key("late")).await;
    until_above(db, &seen, late_id).await;
    drained(db).await;
    running.stop().await;
}

#[postgres]
async fn a_savepoint_hides_no_message_from_the_low_watermark(db: &TestDb) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    until_above(db, &seen, 0).await;
    // Its first write is the message, in a transaction within one.
    let outer = db.connect().await.begin().await.unwrap();
    let inner = outer.begin().await.unwrap();
    commit(&inner, "late", 0).await;
    inner.commit().await.unwrap();
    let late_id = last_id(db).await;
    for n in 0..3 {
        let from = seen.count();
        commit_many(db, &QUEUE, &format!("passing-{n}"), 0..600).await;
        seen.reaches(from + 600).await;
    }
    assert!(low_id(db).await < late_id);
    outer.commit().await.unwrap();
    eventually("the late one", async || seen.by_key().contains_key("late")).await;
    running.stop().await;
}

#[postgres]
async fn a_long_list_on_a_bare_connection_stays_in_order_while_others_send(db: &TestDb) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    until_above(db, &seen, 0).await;
    let (other, stop) = (db.connect().await, Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let sending = tokio::spawn(async move {
        for n in 0.. {
            if stopped.load(Ordering::Acquire) {
                return n;
            }
            commit(&other, "other", n).await;
        }
        unreachable!("it is stopped before");
    });
    let before = seen.count();
    commit_many(db, &QUEUE, "list", 0..12_000).await;
    seen.reaches(before + 12_000).await;
    stop.store(true, Ordering::Release);
    let sent = sending.await.unwrap();
    eventually("everything", async || {
        let keys = seen.by_key();
        let count = |key: &str| keys.get(key).map_or(0, Vec::len);
        (count("list"), count("other")) == (12_000, sent)
    })
    .await;
    assert!(seen.by_key()["list"].is_sorted());
    assert!(seen.by_key()["other"].is_sorted());
    running.stop().await;
}

#[postgres]
async fn messages_below_the_low_watermark_are_found_and_it_is_reset(db: &TestDb) {
    let seen = Seen::default();
    start_eager(db, &seen).await.stop().await;
    // As if ids began anew, in a table that was emptied by hand.
    db.execute("UPDATE outbox_queue SET low_id = 1000000, high_id = 1000000")
        .await;
    commit_many(db, &QUEUE, "below", 0..3).await;
    let running = start_eager(db, &seen).await;
    seen.reaches(3).await;
    assert_eq!(seen.by_key()["below"], [0, 1, 2]);
    assert_eq!(low_id(db).await, 0);
    commit(db.connection(), "below", 3).await;
    seen.reaches(4).await;
    running.stop().await;
}

/// How many pages the sequencer's statements have touched in all.
async fn pages(db: &TestDb) -> i64 {
    db.number(
        "SELECT COALESCE(SUM(shared_blks_hit + shared_blks_read), 0)::bigint \
         FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query LIKE '%DELETE FROM outbox_incoming%'",
    )
    .await
}

#[postgres]
async fn an_old_transaction_does_not_make_every_pass_scan_what_was_taken_since(db: &TestDb) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
    let old = db.connect().await;
    old.execute_unprepared("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class")
        .await
        .unwrap();
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    until_above(db, &seen, 6_000).await;
    let calls = "SELECT COALESCE(SUM(calls), 0)::bigint FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query LIKE '%DELETE FROM outbox_incoming%'";
    let (before, began) = (pages(db).await, db.number(calls).await);
    for n in 0..20 {
        let from = seen.count();
        commit(db.connection(), "k", n).await;
        seen.reaches(from + 1).await;
    }
    let passes = db.number(calls).await - began;
    let each = (pages(db).await - before) / passes.max(1);
    // Each of 6,000 rows that cannot be removed would cost a page.
    assert!(each < 2_000, "{each} pages in each of {passes} passes");
    running.stop().await;
    drop(old);
}
