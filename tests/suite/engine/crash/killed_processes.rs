//! Several real processes on one database, one of them killed.

use super::*;
use crate::engine::support::shared_keys::Keys;
use crate::engine::support::worker_process::{Worker, create_delivery, deliveries};
use outbox_tests::every_server;

#[every_server]
async fn three_processes_keep_order_and_lose_nothing_when_one_is_killed(db: &TestDb) {
    create_delivery(db).await;
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::spawn(db)).collect();
    // A consumer that joins later starts at the present.
    eventually("both consumers", async || {
        db.number("SELECT COUNT(*) FROM outbox_consumer").await == 2
    })
    .await;
    let mut keys = Keys::new(12);
    let connections = [db.connect().await];
    let queue = QUEUE;
    let producing = keys.produce(&connections, &queue, 8, 60);
    let killing = async {
        // The process that is at work in the middle of it is killed.
        eventually("a third of the deliveries", async || {
            deliveries(db, "consumer = 'default'").await > 160
        })
        .await;
        let latest =
            "SELECT worker FROM delivery WHERE consumer = 'default' ORDER BY id DESC LIMIT 1";
        let victim = db.number(latest).await;
        let found = workers
            .iter_mut()
            .find(|worker| i64::from(worker.id()) == victim);
        let victim = found.expect("one of ours");
        victim.kill();
        *victim = Worker::spawn(db);
    };
    tokio::join!(producing, killing);
    let total = i64::try_from(keys.total()).unwrap();
    for consumer in ["default", "ledger"] {
        let condition = format!("consumer = '{consumer}'");
        eventually(&format!("{total} deliveries to {consumer}"), async || {
            deliveries(db, &condition).await >= total
        })
        .await;
        let seen = Seen::default();
        let notes = format!("SELECT note FROM delivery WHERE {condition} ORDER BY id");
        *seen.0.lock().unwrap() = db.texts(&notes).await;
        keys.assert_in_order(&seen.by_key());
        if consumer == "ledger" {
            assert_eq!(seen.count(), keys.total(), "exactly once");
        }
    }
    for worker in &mut workers {
        worker.stop().await;
    }
    drained_leases(db).await;
}

/// After an orderly stop no process holds a lease.
async fn drained_leases(db: &TestDb) {
    let held = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL";
    assert_eq!(db.number(held).await, 0);
}
