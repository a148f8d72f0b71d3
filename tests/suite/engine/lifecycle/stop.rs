//! A stop ends within its grace, counts no attempt and holds no lease.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use outbox_runtime::{Outbox, OutboxHandle, StopReport};
use outbox_tests::every_engine;
use std::time::Instant;

const GRACE: Duration = Duration::from_millis(300);
/// A grace that no handler needs if it ends when asked.
const PLENTY: Duration = Duration::from_secs(10);

async fn start(db: &TestDb, gated: &Gated, transactional: bool) -> OutboxHandle {
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(5));
    let builder = if transactional {
        queue.transactional(gated.clone())
    } else {
        queue.leased(gated.clone())
    };
    builder.start().await.unwrap()
}

/// Stops an outbox in the middle of a message, starts another, and checks that
/// the message comes at once, as if it had not been tried.
async fn assert_not_counted(db: &TestDb, on_cancel: OnCancel, transactional: bool) -> StopReport {
    create_ledger(db).await;
    let gated = Gated::new(on_cancel);
    let running = start(db, &gated, transactional).await;
    commit_many(db, &QUEUE, "k", 0..3).await;
    gated.entered(1).await;
    let grace = match on_cancel {
        OnCancel::GiveUp => PLENTY,
        OnCancel::Ignore | OnCancel::Block | OnCancel::FailOnce => GRACE,
    };
    let report = running.stop_within(grace).await;
    let interrupted = usize::from(on_cancel == OnCancel::Ignore);
    assert_eq!(gated.dropped(), interrupted);
    assert_eq!(report.interrupted, interrupted, "{report:?}");
    let held = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL OR claimed_seq > processed_seq";
    assert_eq!(db.number(held).await, 0, "leases are free");
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_attempt").await,
        0,
        "nothing counted"
    );
    let began = Instant::now();
    gated.open();
    let running = start(db, &gated, transactional).await;
    gated.entered(4).await;
    // The lease would have lasted 30 seconds.
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    drained(db).await;
    assert_eq!(gated.seen.all(), ["k:0", "k:0", "k:1", "k:2"]);
    assert_eq!(*gated.attempts.lock().unwrap(), [0, 0, 0, 0]);
    if transactional {
        assert_eq!(
            db.texts("SELECT note FROM ledger ORDER BY note").await,
            ["k:0", "k:1", "k:2"]
        );
    }
    let idle = running.stop().await;
    assert!(idle.clean && idle.interrupted == 0, "{idle:?}");
    report
}

#[every_engine]
async fn a_handler_that_ignores_cancellation_is_dropped_after_the_grace(db: &TestDb) {
    let report = assert_not_counted(db, OnCancel::Ignore, false).await;
    assert!(!report.clean);
    assert!(
        report.took >= GRACE && report.took < GRACE * 10,
        "{report:?}"
    );
}

#[every_engine]
async fn a_transactional_handler_is_dropped_after_the_grace_too(db: &TestDb) {
    let report = assert_not_counted(db, OnCancel::Ignore, true).await;
    assert!(!report.clean);
    assert!(
        report.took >= GRACE && report.took < GRACE * 10,
        "{report:?}"
    );
}

#[every_engine]
async fn every_handler_that_had_to_be_dropped_is_reported(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    let running = start(db, &gated, false).await;
    for partition in 0..3 {
        let sent = message("k", partition as usize).to_partition(partition);
        enqueue(db.connection(), &QUEUE, sent).await.unwrap();
    }
    gated.entered(3).await;
    let report = running.stop_within(GRACE).await;
    assert!(!report.clean && report.interrupted == 3, "{report:?}");
    assert_eq!(gated.dropped(), 3);
}

#[every_engine]
async fn a_handler_that_gives_up_when_asked_is_not_counted(db: &TestDb) {
    let report = assert_not_counted(db, OnCancel::GiveUp, false).await;
    assert!(report.clean, "{report:?}");
    assert!(report.took < PLENTY / 2, "{report:?}");
}

#[every_engine]
async fn a_transactional_handler_that_gives_up_is_not_counted(db: &TestDb) {
    let report = assert_not_counted(db, OnCancel::GiveUp, true).await;
    assert!(report.clean, "{report:?}");
    assert!(report.took < PLENTY / 2, "{report:?}");
}

#[every_engine]
async fn a_message_that_is_finished_within_the_grace_is_settled(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    let running = start(db, &gated, false).await;
    commit_many(db, &QUEUE, "k", 0..3).await;
    gated.entered(1).await;
    let stopping = tokio::spawn(running.stop_within(PLENTY));
    gated.asked().await;
    gated.let_one_through();
    // It finishes the message it has, and no more.
    let report = stopping.await.unwrap();
    assert!(
        report.clean && report.took < Duration::from_secs(5),
        "{report:?}"
    );
    assert_eq!(report.interrupted, 0, "it came to its end");
    assert_eq!(processed(db, "default", "k").await, 1);
    gated.open();
    let running = start(db, &gated, false).await;
    drained(db).await;
    assert_eq!(gated.seen.all(), ["k:0", "k:1", "k:2"]);
    running.stop().await;
}

/// The stop of an outbox that recovers from a crash.
#[every_engine]
async fn a_stop_does_not_wait_for_the_rest_of_a_recovery(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    start(db, &gated, false).await.stop().await;
    commit_many(db, &QUEUE, "k", 0..20).await;
    // As if a process had died with a claim of twenty.
    db.execute("UPDATE outbox_cursor SET claimed_seq = 20, lease_epoch = 3")
        .await;
    let running = start(db, &gated, false).await;
    gated.entered(1).await;
    let stopping = tokio::spawn(running.stop_within(PLENTY));
    gated.asked().await;
    gated.open();
    let report = stopping.await.unwrap();
    assert!(report.clean, "{report:?}");
    assert_eq!(gated.seen.all(), ["k:0"], "none is begun after the stop");
    let held = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL";
    assert_eq!(db.number(held).await, 0, "leases are free");
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_attempt").await,
        0,
        "nothing is charged"
    );
    let running = start(db, &gated, false).await;
    drained(db).await;
    assert_eq!(gated.seen.by_key()["k"], (0..20).collect::<Vec<_>>());
    running.stop().await;
}
