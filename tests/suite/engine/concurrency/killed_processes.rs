//! A real process with many keys at a time, killed again and again.

use super::*;
use crate::engine::support::shared_keys::Keys;
use crate::engine::support::worker_process::{Worker, create_delivery, deliveries};

#[every_engine]
async fn a_process_that_is_killed_again_and_again_loses_nothing(db: &TestDb) {
    create_delivery(db).await;
    let start = || Worker::with(db, &["3000/8"]);
    let mut worker = start();
    eventually("both consumers", async || {
        db.number("SELECT COUNT(*) FROM outbox_consumer").await == 2
    })
    .await;
    let mut keys = Keys::new(24);
    let connections = [db.connect().await];
    keys.produce(&connections, &QUEUE, 4, 100).await;
    let total = i64::try_from(keys.total()).unwrap();
    for kill in 1..=5 {
        eventually("more deliveries", async || {
            deliveries(db, "consumer = 'default'").await >= (total * kill / 8)
        })
        .await;
        worker.kill();
        worker = start();
    }
    eventually("all deliveries", async || {
        deliveries(db, "consumer = 'default'").await >= total
    })
    .await;
    drained_after_a_kill(db).await;
    worker.stop().await;
    let seen = Seen::default();
    let notes = "SELECT note FROM delivery WHERE consumer = 'default' ORDER BY id";
    *seen.0.lock().unwrap() = db.texts(notes).await;
    keys.assert_in_order(&seen.by_key());
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
}
