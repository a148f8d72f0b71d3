//! What an operator sees.

use super::*;
use outbox::{Outbox, RetryPolicy};
use outbox_tests::{TestDb, eventually, every_engine};
use std::time::Duration;

/// Fails, saying why.
struct Broken;

#[async_trait::async_trait]
impl LeasedMessageHandler for Broken {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::retry_after(Duration::from_secs(600), "the warehouse is closed")
    }
}

#[every_engine]
async fn stats_show_backlog_failures_and_lease_owners(db: &TestDb) {
    let running = Outbox::builder(db.connection().clone())
        .queue("operations", QUEUE.partitions())
        .consumer("broken")
        .retry(RetryPolicy::default())
        .leased(Broken)
        .queue("operations", QUEUE.partitions())
        .consumer("fine")
        .leased(Seen::default())
        .start()
        .await
        .unwrap();
    let id = commit(db.connection(), "order", "s3cret").await;
    commit(db.connection(), "order", "2").await;
    eventually("the failure", async || {
        let stats = running.stats().await.unwrap();
        let consumers = &stats.queues[0].consumers;
        let settled = stats.queues[0].incoming == 0;
        settled && consumers[0].failing.len() == 1 && consumers[1].lag == 0
    })
    .await;
    let stats = running.stats().await.unwrap();
    let queue = &stats.queues[0];
    assert_eq!(
        (&*queue.name, queue.paused, queue.incoming),
        ("operations", false, 0)
    );
    let [broken, fine] = &queue.consumers[..] else {
        panic!("{stats:?}")
    };
    assert_eq!(
        (&*broken.name, &*broken.mode, broken.lag),
        ("broken", "leased", 2)
    );
    assert_eq!((&*fine.name, fine.lag, fine.failing.len()), ("fine", 0, 0));
    assert!(fine.silent_for < Duration::from_secs(30));
    assert_eq!(
        broken
            .partitions
            .iter()
            .map(|p| p.number)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!(broken.partitions.iter().map(|p| p.sequence).sum::<i64>(), 2);
    let failing = &broken.failing[0];
    assert_eq!((failing.id.get(), failing.attempts), (id, 1));
    assert_eq!((&*failing.event_type, &*failing.key), ("order", &b"1"[..]));
    assert_eq!(failing.reason.as_deref(), Some("the warehouse is closed"));
    let due = failing.due_in.as_secs();
    assert!((500..=600).contains(&due), "{due}");
    assert!(!format!("{stats:?}").contains("s3cret"));
    running.stop().await;
}

#[every_engine]
async fn messages_that_no_consumer_takes_are_kept_and_reported(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("operations", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let more = Queue::of("operations", Partitions::of(8));
    let lost = NewMessage::new("order", 1, "beyond").to_partition(5);
    outbox::enqueue(db.connection(), &more, lost).await.unwrap();
    let other = Queue::of("nobody", Partitions::of(1));
    outbox::enqueue(db.connection(), &other, NewMessage::new("order", 1, "x"))
        .await
        .unwrap();
    commit(db.connection(), "order", "fine").await;
    eventually("the good one", async || seen.all() == ["fine"]).await;

    let stats = running.stats().await.unwrap();
    let mut found: Vec<_> = stats
        .unregistered
        .iter()
        .map(|r| (r.queue_id, r.partition, r.count))
        .collect();
    found.sort_unstable();
    let mut expected = vec![
        (QUEUE.id(), Some(5), 1),
        (outbox::queue_id("nobody"), None, 1),
    ];
    expected.sort_unstable();
    assert_eq!(found, expected);
    running.stop().await;

    // A program that knows the queue gets its message.
    let late = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("nobody", Partitions::of(1))
        .leased(late.clone())
        .start()
        .await
        .unwrap();
    eventually("the kept one", async || late.all() == ["x"]).await;
    running.stop().await;
}

#[every_engine]
async fn delivered_messages_are_retained_as_long_as_asked(db: &TestDb) {
    let seen = Seen::default();
    let start = async |retention| {
        Outbox::builder(db.connection().clone())
            .retention(retention)
            .queue("operations", QUEUE.partitions())
            .leased(seen.clone())
            .start()
            .await
            .unwrap()
    };
    commit(db.connection(), "order", "1").await;
    let running = start(Duration::from_secs(3600)).await;
    eventually("delivery", async || seen.all() == ["1"]).await;
    running.stop().await;
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_body").await, 1);
    let running = start(Duration::ZERO).await;
    eventually("vacuum", async || {
        db.number("SELECT COUNT(*) FROM outbox_body").await == 0
    })
    .await;
    running.stop().await;
}
