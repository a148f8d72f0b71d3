//! Messages of a key come in the order in which their transactions committed.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use crate::engine::support::shared_keys::Keys;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;

#[every_engine]
async fn every_key_keeps_its_order_with_eight_producers(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .batch(7)
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let mut keys = Keys::new(12);
    keys.produce(&[db.connect().await], &QUEUE, 8, 50).await;
    assert_eq!(keys.total(), 400);
    seen.reaches(400).await;
    drained(db).await;
    keys.assert_in_order(&seen.by_key());
    assert_eq!(seen.count(), 400, "nothing failed, so nothing comes twice");
    running.stop().await;
}

#[every_engine]
async fn a_backlog_of_many_batches_comes_once_and_in_order(db: &TestDb) {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..500).await;
    let seen = Seen::default();
    let book = Scripted::new(Kind::TransactionalBatch, |_, _| Act::Succeed);
    let builder = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .batch(10)
        .leased(seen.clone())
        .queue("orders", QUEUE.partitions())
        .batch(10);
    let running = book.serve(builder).start().await.unwrap();
    drained(db).await;
    assert_eq!(seen.by_key()["k"], (0..500).collect::<Vec<_>>());
    let calls = book.calls().into_iter().map(|call| call.text);
    assert_eq!(calls.collect::<Vec<_>>(), seen.all());
    assert_eq!(ledger(db, "TransactionalBatch").await.len(), 500);
    running.stop().await;
}

#[every_engine]
async fn three_outboxes_keep_the_order_of_every_key(db: &TestDb) {
    let seen = Seen::default();
    let mut running = Vec::new();
    for _ in 0..3 {
        let outbox = Outbox::builder(db.connect().await)
            .queue("orders", QUEUE.partitions())
            .batch(7)
            .leased(seen.clone())
            .start();
        running.push(outbox.await.unwrap());
    }
    let mut keys = Keys::new(12);
    keys.produce(&[db.connect().await], &QUEUE, 8, 50).await;
    seen.reaches(400).await;
    drained(db).await;
    keys.assert_in_order(&seen.by_key());
    assert_eq!(seen.count(), 400, "nothing failed, so nothing comes twice");
    for outbox in running {
        assert!(outbox.stop().await.clean);
    }
}
