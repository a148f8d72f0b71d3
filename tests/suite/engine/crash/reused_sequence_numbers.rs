//! A server that crashed may have lost a claim and the sequence numbers of its messages, and may
//! give both out again. A process that still remembers the claim must not acknowledge another
//! message with it.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use outbox_tests::{every_engine, every_server};

/// Lets two messages swap their sequence numbers while a handler has the first of them, under the
/// same claim. Neither message may be skipped.
async fn assert_none_is_passed_by(db: &TestDb, transactional: bool) {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..2).await;
    let gated = Gated::new(OnCancel::Ignore);
    let queue = eager_orders(&db.connect().await).batch(1).retry(soon(9));
    let builder = match transactional {
        true => queue.transactional(gated.clone()),
        false => queue.leased(gated.clone()),
    };
    let running = builder.start().await.unwrap();
    gated.entered(1).await;
    for (from, to) in [(1, 3), (2, 1), (3, 2)] {
        let partition = partition_id("k");
        db.execute(&format!(
            "UPDATE outbox_outgoing SET seq = {to} WHERE partition_id = {partition} AND seq = {from}"
        ))
        .await;
    }
    gated.open();
    drained(db).await;
    running.stop().await;
    let seen = gated.seen.by_key()["k"].clone();
    assert!(seen.contains(&1), "only {seen:?} were delivered");
}

#[every_engine]
async fn an_acknowledgement_covers_only_its_own_message(db: &TestDb) {
    assert_none_is_passed_by(db, false).await;
}

// On SQLite no other connection can write while a handler's transaction is open.
#[every_server]
async fn a_transaction_acknowledges_only_its_own_message(db: &TestDb) {
    assert_none_is_passed_by(db, true).await;
}
