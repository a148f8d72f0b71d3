//! A suspect is charged with a death before its handler runs, and only a death stays on record.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use crate::engine::support::ways::{Serve, WAYS, start, start_with};
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::{Engine, every_engine};
use std::time::Instant;

/// A session renews it after half a second; handlers are dropped after 1.5.
const LEASE: LeaseConfig = LeaseConfig {
    duration: Duration::from_secs(2),
    headroom: Duration::from_secs(1),
};

/// Commits a message that is claimed by a process that died.
pub(super) async fn commit_a_suspect(db: &TestDb, way: (&str, Serve), gated: &Gated) {
    // Makes the cursors.
    start(db, way, gated).await.stop().await;
    commit(db.connection(), "k", 0).await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, lease_until = {}, \
         claimed_seq = processed_seq + 1 WHERE partition_id = {} AND consumer = '{}'",
        db.from_now(-1_000),
        partition_id("k"),
        way.0
    ))
    .await;
}

/// On SQLite no other process can take a lease while a transactional handler is the writer.
pub(super) fn ways_that_can_lose_a_lease(db: &TestDb) -> &'static [(&'static str, Serve)] {
    match db.engine() {
        Engine::Sqlite => &WAYS[..2],
        Engine::Postgres | Engine::MySql => &WAYS,
    }
}

/// How many records of attempts a consumer has for which something holds.
async fn records(db: &TestDb, name: &str, condition: &str) -> i64 {
    let count = "SELECT COUNT(*) FROM outbox_attempt WHERE consumer";
    db.number(&format!("{count} = '{name}' AND {condition}"))
        .await
}

/// Asserts that the only record of a consumer has so many failures and deaths.
async fn assert_record(db: &TestDb, name: &str, failures: u32, deaths: u32) {
    let exact = format!("failures = {failures} AND deaths = {deaths}");
    let found = (
        records(db, name, "1 = 1").await,
        records(db, name, &exact).await,
    );
    assert_eq!(found, (1, 1), "{name}: {exact}");
}

pub(super) async fn until_no_record(db: &TestDb, name: &str) {
    eventually("no record", async || records(db, name, "1 = 1").await == 0).await;
}

/// Another process takes the lease, as after a long silence of this one, and dies.
pub(super) async fn steal(db: &TestDb, name: &str) {
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'thief', lease_epoch = lease_epoch + 1, \
         lease_until = {} WHERE partition_id = {} AND consumer = '{name}'",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
}

pub(super) async fn letters(db: &TestDb) -> Vec<String> {
    db.texts("SELECT reason FROM outbox_dead_letter").await
}

#[every_engine]
async fn a_death_is_on_record_while_a_suspect_runs_and_not_when_it_has_returned(db: &TestDb) {
    create_ledger(db).await;
    for way in WAYS {
        let gated = Gated::new(OnCancel::Ignore);
        commit_a_suspect(db, way, &gated).await;
        let running = start(db, way, &gated).await;
        gated.entered(1).await;
        assert_record(db, way.0, 0, 1).await;
        gated.open();
        until_no_record(db, way.0).await;
        running.stop().await;
    }
    assert_eq!(letters(db).await, Vec::<String>::new());
}

/// A retry is no suspect: nothing is charged before it runs.
#[every_engine]
async fn a_retry_is_charged_with_no_death(db: &TestDb) {
    create_ledger(db).await;
    for way in WAYS {
        let gated = Gated::new(OnCancel::FailOnce);
        let running = start(db, way, &gated).await;
        commit(db.connection(), "k", 0).await;
        gated.entered(2).await;
        assert_record(db, way.0, 1, 0).await;
        gated.open();
        until_no_record(db, way.0).await;
        running.stop().await;
    }
}

/// The process lives, so the message did not kill it. The process that takes the lease must find no
/// death on record.
#[every_engine]
async fn a_process_that_lost_its_lease_takes_its_charge_back(db: &TestDb) {
    create_ledger(db).await;
    for &way in ways_that_can_lose_a_lease(db) {
        // With one attempt the charge alone would make it a dead letter.
        for most in [3, 1] {
            let gated = Gated::new(OnCancel::Ignore);
            commit_a_suspect(db, way, &gated).await;
            let running = start_with(db, way, &gated, LeaseConfig::default(), most).await;
            gated.entered(1).await;
            steal(db, way.0).await;
            gated.let_one_through();
            // It is delivered again, and charged again.
            gated.entered(2).await;
            assert_record(db, way.0, 0, 1).await;
            gated.open();
            until_no_record(db, way.0).await;
            running.stop().await;
            let attempts = gated.attempts.lock().unwrap().clone();
            assert_eq!(attempts, [0, 0], "{}, {most}", way.0);
        }
    }
    assert_eq!(letters(db).await, Vec::<String>::new());
}

/// The handler is dropped as soon as the session knows of the loss: it had time left, and
/// has done nothing wrong.
#[every_engine]
async fn a_suspect_that_is_dropped_with_its_lease_is_not_charged(db: &TestDb) {
    let keys = WAYS[1];
    let gated = Gated::new(OnCancel::Ignore);
    commit_a_suspect(db, keys, &gated).await;
    let running = start_with(db, keys, &gated, LEASE, 1).await;
    gated.entered(1).await;
    steal(db, keys.0).await;
    gated.entered(2).await;
    gated.open();
    until_no_record(db, keys.0).await;
    running.stop().await;
    assert_eq!(letters(db).await, Vec::<String>::new());
    assert_eq!(*gated.attempts.lock().unwrap(), [0, 0]);
    assert_eq!(gated.dropped(), 1);
}

/// With one attempt each suspect must be alone in the process. A transactional turn that has the
/// right to that claims the next one with its commit.
#[every_engine]
async fn suspects_that_must_be_alone_do_not_wait_for_the_reconciler(db: &TestDb) {
    create_ledger(db).await;
    let gated = Gated::new(OnCancel::Ignore);
    gated.open();
    let start = async || {
        let mut profile = OutboxProfile::low_latency();
        profile.reconciler = profile.reconciler.idle_interval(Duration::from_secs(3_600));
        let outbox = Outbox::builder(db.connect().await).profile(profile);
        let queue = outbox.queue("orders", QUEUE.partitions()).retry(soon(1));
        queue.transactional(gated.clone()).start().await.unwrap()
    };
    start().await.stop().await;
    commit_many(db, &QUEUE, "k", 0..4).await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, lease_until = {}, \
         claimed_seq = 4 WHERE partition_id = {}",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
    let running = start().await;
    gated.entered(4).await;
    drained(db).await;
    running.stop().await;
    assert_eq!(letters(db).await, Vec::<String>::new());
    assert_eq!(gated.seen.count(), 4);
}

/// Without this it would be delivered for ever: its handler returns each time, but too late.
#[every_engine]
async fn a_message_whose_handler_blocks_until_its_lease_is_lost_becomes_a_dead_letter(db: &TestDb) {
    create_ledger(db).await;
    for &way in ways_that_can_lose_a_lease(db) {
        let gated = Gated::new(OnCancel::Block);
        commit_a_suspect(db, way, &gated).await;
        let running = start_with(db, way, &gated, SHORT, 3).await;
        for attempt in 1..=3 {
            gated.entered(attempt).await;
            let entered = Instant::now();
            eventually("its time is over", async || {
                entered.elapsed() > SHORT.duration
            })
            .await;
            steal(db, way.0).await;
            gated.let_one_through();
        }
        let buried = format!(
            "SELECT COUNT(*) FROM outbox_dead_letter WHERE consumer = '{}'",
            way.0
        );
        eventually("a letter", async || db.number(&buried).await == 1).await;
        running.stop().await;
        let attempts = gated.attempts.lock().unwrap().clone();
        assert_eq!(attempts, [0, 1, 2], "{}", way.0);
    }
    let reasons = letters(db).await;
    assert!(
        reasons
            .iter()
            .all(|reason| reason.contains("never returned")),
        "{reasons:?}"
    );
}
