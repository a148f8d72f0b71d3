//! A paused queue keeps its messages, in every process and across restarts.

use super::*;
use outbox_runtime::{Outbox, OutboxHandle, OutboxProfile};
use outbox_tests::every_engine;

const OTHER: Queue = Queue::of("pause-other", Partitions::of(1));

/// An outbox on connections of its own that serves `orders`, and another queue
/// that is never paused.
async fn start(db: &TestDb, seen: &Seen, other: &Seen) -> OutboxHandle {
    Outbox::builder(db.connect().await)
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .queue(OTHER.name(), OTHER.partitions())
        .leased(other.clone())
        .start()
        .await
        .unwrap()
}

/// Waits until everything of `orders` has a number and the other queue is
/// served: then what is not paused would have been delivered.
async fn settled(db: &TestDb, other: &Seen) {
    let before = other.count();
    eventually("numbers", async || {
        let rest = format!(
            "SELECT COUNT(*) FROM outbox_incoming WHERE queue_id = {}",
            QUEUE.id()
        );
        db.number(&rest).await == 0
    })
    .await;
    for n in 1..=20 {
        enqueue(db.connection(), &OTHER, message("o", n))
            .await
            .unwrap();
        other.reaches(before + n).await;
    }
}

#[every_engine]
async fn a_paused_queue_delivers_nothing_until_it_is_resumed(db: &TestDb) {
    let (seen, other) = (Seen::default(), Seen::default());
    let first = start(db, &seen, &other).await;
    commit_many(db, &QUEUE, "k", 0..5).await;
    seen.reaches(5).await;
    assert!(first.outbox().pause("orders").await.unwrap());
    assert!(!first.outbox().pause("no-such-queue").await.unwrap());
    commit_many(db, &QUEUE, "k", 5..10).await;
    settled(db, &other).await;
    assert_eq!(seen.count(), 5, "paused");
    first.stop().await;

    // Also across a restart, and for what was committed meanwhile.
    commit_many(db, &QUEUE, "k", 10..15).await;
    let first = start(db, &seen, &other).await;
    let second = start(db, &seen, &other).await;
    commit_many(db, &QUEUE, "k", 15..20).await;
    settled(db, &other).await;
    assert_eq!(seen.count(), 5, "still paused");

    assert!(first.outbox().resume("orders").await.unwrap());
    seen.reaches(20).await;
    drained(db).await;
    assert_eq!(seen.by_key()["k"], (0..20).collect::<Vec<_>>());
    first.stop().await;
    second.stop().await;
}

#[every_engine]
async fn an_outbox_that_starts_on_a_paused_queue_delivers_nothing(db: &TestDb) {
    let (seen, other) = (Seen::default(), Seen::default());
    let running = start(db, &seen, &other).await;
    assert!(running.outbox().pause("orders").await.unwrap());
    running.stop().await;
    for round in 0..5 {
        commit_many(db, &QUEUE, "k", round * 4..round * 4 + 4).await;
        let running = start(db, &seen, &other).await;
        settled(db, &other).await;
        assert_eq!(seen.count(), 0, "paused, at start {round}");
        running.stop().await;
    }
    let running = start(db, &seen, &other).await;
    assert!(running.outbox().resume("orders").await.unwrap());
    seen.reaches(20).await;
    assert_eq!(seen.by_key()["k"], (0..20).collect::<Vec<_>>());
    running.stop().await;
}

#[every_engine]
async fn pausing_in_one_outbox_is_seen_by_another(db: &TestDb) {
    let (seen, other) = (Seen::default(), Seen::default());
    let first = start(db, &seen, &other).await;
    let second = start(db, &seen, &other).await;
    commit_many(db, &QUEUE, "k", 0..5).await;
    seen.reaches(5).await;
    first.outbox().pause("orders").await.unwrap();
    first.stop().await;
    // The second one notices within its reconciler's interval of 100 ms.
    let mut sent = 5;
    eventually("the pause", async || {
        let before = seen.count();
        commit_many(db, &QUEUE, "probe", before..before + 1).await;
        settled(db, &other).await;
        seen.count() == before
    })
    .await;
    sent += seen.count() - 5;
    commit_many(db, &QUEUE, "k", 5..10).await;
    settled(db, &other).await;
    assert_eq!(seen.count(), sent);
    second.outbox().resume("orders").await.unwrap();
    seen.reaches(sent + 6).await;
    drained(db).await;
    assert_eq!(seen.by_key()["k"], (0..10).collect::<Vec<_>>());
    second.stop().await;
}
