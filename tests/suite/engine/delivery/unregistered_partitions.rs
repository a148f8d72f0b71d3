//! Rows of an unregistered queue or partition stay, and block no other message.

use super::*;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;

/// The queue `orders` as a producer knows it that was compiled with another partition count.
const WIDER: Queue = Queue::of("orders", Partitions::of(8));
const UNKNOWN: Queue = Queue::of("unknown", Partitions::of(2));

async fn incoming(db: &TestDb, queue: &Queue) -> i64 {
    db.number(&format!(
        "SELECT COUNT(*) FROM outbox_incoming i JOIN outbox_body b ON b.id = i.id \
         WHERE i.queue_id = {}",
        queue.id()
    ))
    .await
}

/// It writes slots, of which the sequencer makes partitions.
#[every_engine]
async fn a_producer_compiled_with_another_partition_count_keeps_every_key_in_order(db: &TestDb) {
    let seen = Seen::default();
    let running = orders(db.connection())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for n in 0..10 {
        for key in ["a", "b", "c", "d", "e"] {
            let producer = if n % 2 == 0 { &QUEUE } else { &WIDER };
            enqueue(db.connection(), producer, message(key, n))
                .await
                .unwrap();
        }
    }
    seen.reaches(50).await;
    for (key, numbers) in seen.by_key() {
        assert_eq!(numbers, (0..10).collect::<Vec<_>>(), "{key}");
    }
    running.stop().await;
}

#[every_engine]
async fn rows_of_unregistered_queues_and_partitions_are_kept_and_block_no_other(db: &TestDb) {
    let seen = Seen::default();
    // They have the lowest ids, and are more than one pass takes.
    for n in 0..30 {
        let beyond = message("beyond", n).to_partition(4 + u32::try_from(n).unwrap() % 4);
        enqueue(db.connection(), &WIDER, beyond).await.unwrap();
    }
    commit_many(db, &UNKNOWN, "unknown", 0..30).await;
    let running = Outbox::builder(db.connection().clone())
        .sequencer_tuning(
            outbox_runtime::OutboxProfile::default()
                .sequencer
                .batch_size(10),
        )
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for key in ["a", "b", "c"] {
        commit_many(db, &QUEUE, key, 0..20).await;
    }
    seen.reaches(60).await;
    eventually("only the unregistered rows", async || {
        db.number("SELECT COUNT(*) FROM outbox_body").await == 60
            && db.number("SELECT COUNT(*) FROM outbox_outgoing").await == 0
    })
    .await;
    assert_eq!(incoming(db, &QUEUE).await, 30);
    assert_eq!(incoming(db, &UNKNOWN).await, 30);
    assert_eq!(seen.count(), 60);
    running.stop().await;
    // Once a process registers the queue, they are delivered.
    let late = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("unknown", UNKNOWN.partitions())
        .leased(late.clone())
        .start()
        .await
        .unwrap();
    late.reaches(30).await;
    assert_eq!(late.by_key()["unknown"], (0..30).collect::<Vec<_>>());
    running.stop().await;
}
