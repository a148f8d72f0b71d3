//! Several consumers of one log, each with its own cursor.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::vacuum_passes::{a_pass_of_vacuum, bodies_of};
use outbox_runtime::{Outbox, OutboxBuilder};
use outbox_tests::every_engine;

const HOUR: Duration = Duration::from_secs(3_600);

#[every_engine]
async fn consumers_of_different_speed_both_get_everything(db: &TestDb) {
    let (fast, slow) = (Seen::default(), Gated::new(OnCancel::Ignore));
    let running = orders(db.connection())
        .consumer("fast")
        .leased(fast.clone())
        .queue("orders", QUEUE.partitions())
        .consumer("slow")
        .leased(slow.clone())
        .queue("marker", Partitions::of(1))
        .leased(Seen::default())
        .start()
        .await
        .unwrap();
    for key in ["a", "b", "c", "d"] {
        commit_many(db, &QUEUE, key, 0..50).await;
    }
    fast.reaches(200).await;
    slow.entered(1).await;
    a_pass_of_vacuum(db).await;
    assert_eq!(
        bodies_of(db, "step").await,
        200,
        "vacuum waits for the slower"
    );
    slow.open();
    slow.entered(200).await;
    drained(db).await;
    assert_eq!(fast.by_key(), slow.seen.by_key());
    assert_eq!((fast.count(), slow.seen.count()), (200, 200));
    running.stop().await;
}

#[every_engine]
async fn a_consumer_gets_earlier_messages_if_it_is_the_first_or_asks_for_them(db: &TestDb) {
    // Committed before any consumer existed.
    commit_many(db, &QUEUE, "k", 0..20).await;
    let first = Seen::default();
    let builder = || Outbox::builder(db.connection().clone()).retention(HOUR);
    let running = builder()
        .queue("orders", QUEUE.partitions())
        .leased(first.clone())
        .start()
        .await
        .unwrap();
    first.reaches(20).await;
    running.stop().await;
    let (late, earliest) = (Seen::default(), Seen::default());
    let with_later_ones = |builder: OutboxBuilder| {
        builder
            .queue("orders", QUEUE.partitions())
            .consumer("late")
            .leased(late.clone())
            .queue("orders", QUEUE.partitions())
            .consumer("earliest")
            .from_earliest()
            .leased(earliest.clone())
            .start()
    };
    let running = with_later_ones(
        builder()
            .queue("orders", QUEUE.partitions())
            .leased(first.clone()),
    );
    let running = running.await.unwrap();
    commit_many(db, &QUEUE, "k", 20..25).await;
    first.reaches(25).await;
    late.reaches(5).await;
    earliest.reaches(25).await;
    running.stop().await;
    // A restart moves no cursor.
    let running = with_later_ones(builder()).await.unwrap();
    commit_many(db, &QUEUE, "k", 25..26).await;
    late.reaches(6).await;
    earliest.reaches(26).await;
    running.stop().await;
    assert_eq!(first.by_key()["k"], (0..25).collect::<Vec<_>>());
    assert_eq!(late.by_key()["k"], (20..26).collect::<Vec<_>>());
    assert_eq!(earliest.by_key()["k"], (0..26).collect::<Vec<_>>());
}

#[every_engine]
async fn a_removed_consumer_no_longer_holds_vacuum_back(db: &TestDb) {
    let seen = Seen::default();
    let gone = orders(db.connection())
        .consumer("gone")
        .leased(Seen::default())
        .start();
    gone.await.unwrap().stop().await;
    let running = orders(db.connection())
        .leased(seen.clone())
        .queue("marker", Partitions::of(1))
        .leased(Seen::default())
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..50).await;
    seen.reaches(50).await;
    a_pass_of_vacuum(db).await;
    assert_eq!(
        bodies_of(db, "step").await,
        50,
        "`gone` has not passed them"
    );
    assert!(
        running
            .outbox()
            .remove_consumer("orders", "gone")
            .await
            .unwrap()
    );
    assert!(
        !running
            .outbox()
            .remove_consumer("orders", "gone")
            .await
            .unwrap()
    );
    a_pass_of_vacuum(db).await;
    drained(db).await;
    running.stop().await;
}

#[every_engine]
async fn a_queue_without_consumers_keeps_its_messages(db: &TestDb) {
    const LONELY: Queue = Queue::of("lonely", Partitions::of(2));
    let seen = Seen::default();
    let start = async |queue: &str, partitions, seen: &Seen| {
        Outbox::builder(db.connection().clone())
            .queue(queue, partitions)
            .leased(seen.clone())
            .queue("marker", Partitions::of(1))
            .leased(Seen::default())
            .start()
            .await
            .unwrap()
    };
    let running = start("orders", QUEUE.partitions(), &seen).await;
    commit_many(db, &LONELY, "lonely", 0..10).await;
    commit_many(db, &QUEUE, "k", 0..10).await;
    seen.reaches(10).await;
    a_pass_of_vacuum(db).await;
    assert_eq!(
        bodies_of(db, "step").await,
        10,
        "only the others were deleted"
    );
    running.stop().await;
    // The first consumer gets them. When it is removed, messages that come then stay.
    let first = Seen::default();
    let running = start("lonely", LONELY.partitions(), &first).await;
    first.reaches(10).await;
    drained(db).await;
    assert!(
        running
            .outbox()
            .remove_consumer("lonely", "default")
            .await
            .unwrap()
    );
    commit_many(db, &LONELY, "lonely", 10..15).await;
    a_pass_of_vacuum(db).await;
    assert_eq!(bodies_of(db, "step").await, 5);
    assert_eq!(first.count(), 10);
    running.stop().await;
    let next = Seen::default();
    let running = start("lonely", LONELY.partitions(), &next).await;
    next.reaches(5).await;
    assert_eq!(next.by_key()["lonely"], (10..15).collect::<Vec<_>>());
    running.stop().await;
}
