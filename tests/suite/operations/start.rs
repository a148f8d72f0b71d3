//! Starting: what is registered, what is refused, how soon it delivers.

use super::*;
use outbox::{ConfigError, Outbox};
use outbox_tests::{TestDb, eventually, every_engine};
use std::time::{Duration, Instant};

#[every_engine]
async fn a_queue_whose_id_is_taken_by_another_name_is_refused(db: &TestDb) {
    let seen = Seen::default();
    let start = || {
        Outbox::builder(db.connection().clone())
            .queue("operations", QUEUE.partitions())
            .leased(seen.clone())
            .start()
    };
    start().await.unwrap().stop().await;
    db.execute("UPDATE outbox_queue SET name = 'somebody-else'")
        .await;
    let error = start().await.err().expect("a collision");
    assert!(
        matches!(&error.problems()[0], ConfigError::QueueIdCollision { other, .. } if other == "somebody-else"),
        "{error}"
    );
}

/// Every event that is linked into this binary counts, handled here or not.
#[every_engine]
async fn a_queue_that_is_only_produced_to_is_compared_with_the_database(db: &TestDb) {
    let event = outbox::events().next().expect("an event");
    let start = || {
        Outbox::builder(db.connection().clone())
            .queue("operations", QUEUE.partitions())
            .leased(Seen::default())
            .start()
    };
    // No process has registered it, so it is not compared.
    start().await.unwrap().stop().await;
    let count = event.queue.partitions().count();
    db.execute(&format!(
        "INSERT INTO outbox_queue (id, name, partitions, created_at) VALUES ({}, '{}', {}, {})",
        event.queue.id(),
        event.queue.name(),
        count * 2 % 127,
        db.from_now(0)
    ))
    .await;
    let error = start().await.err().expect("a disagreement");
    let problems = error.problems();
    assert_eq!(problems.len(), 1, "{error}");
    assert!(
        matches!(&problems[0], ConfigError::PartitionCountMismatch { queue, expected, .. }
            if queue == event.queue.name() && *expected == count),
        "{error}"
    );
}

#[every_engine]
async fn register_makes_the_queues_of_all_events_known(db: &TestDb) {
    outbox::register(db.connection()).await.unwrap();
    outbox::register(db.connection()).await.unwrap();
    let events: std::collections::BTreeSet<i64> =
        outbox::events().map(|event| event.queue.id()).collect();
    assert!(!events.is_empty());
    let queues = db.column("SELECT id FROM outbox_queue ORDER BY id").await;
    assert!(queues.into_iter().eq(events));
}

#[every_engine]
async fn a_lone_message_arrives_within_milliseconds_of_its_commit(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("operations", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let mut delays = Vec::new();
    for n in 0..21 {
        let tx = sea_orm::TransactionTrait::begin(db.connection())
            .await
            .unwrap();
        let message = NewMessage::new("order", n, n.to_string());
        outbox::enqueue(&tx, &QUEUE, message).await.unwrap();
        tx.commit().await.unwrap();
        let committed = Instant::now();
        eventually("delivery", async || seen.all().len() == n + 1).await;
        delays.push(committed.elapsed());
    }
    delays.sort_unstable();
    // Milliseconds when nothing else runs; the rest is for a busy test machine.
    assert!(delays[10] < Duration::from_millis(150), "{delays:?}");
    running.stop().await;
}
