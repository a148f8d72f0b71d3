//! Ten thousand messages over a thousand keys in four partitions, 50 ms each: sixteen
//! keys at a time against one.

use outbox::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, Outbox, OutboxMessage, Partitions, Queue,
    enqueue_batch,
};
use outbox_tests::TestDb;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Default)]
struct Slow(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl LeasedMessageHandler for Slow {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.0.fetch_add(1, Ordering::AcqRel);
        HandlerResult::Success
    }
}

/// Messages each second.
async fn rate(db: &TestDb, queue: &'static str, concurrency: u32, messages: usize) -> f64 {
    let queue = Queue::of(queue, Partitions::of(4));
    for first in (0..messages).step_by(500) {
        let list = (first..messages.min(first + 500))
            .map(|n| NewMessage::new("soak", format!("key{}", n % 1_000), n.to_string()));
        enqueue_batch(db.connection(), &queue, list)
            .await
            .expect("enqueue");
    }
    let slow = Slow::default();
    let began = Instant::now();
    let running = Outbox::builder(db.connection().clone())
        .queue(queue.name().to_owned(), queue.partitions())
        .concurrency(concurrency)
        .leased(slow.clone())
        .start()
        .await
        .expect("start");
    while slow.0.load(Ordering::Acquire) < messages {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    running.stop().await;
    let calls = slow.0.load(Ordering::Acquire);
    assert_eq!(calls, messages, "each once");
    f64::from(u32::try_from(messages).expect("small")) / took.as_secs_f64()
}

pub(super) async fn compare(db: &TestDb) {
    let one = rate(db, "one", 1, 400).await;
    let sixteen = rate(db, "sixteen", 16, 10_000).await;
    let ratio = sixteen / one;
    println!("one key at a time {one:.0}, sixteen {sixteen:.0} per second: {ratio:.1} times");
    assert!(ratio >= 12.0, "less than twelve times");
}
