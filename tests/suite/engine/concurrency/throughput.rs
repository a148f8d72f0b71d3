//! Many keys at a time are faster than one by the factor that is promised.

use super::*;
use outbox_tests::Engine;

/// Long, so that a busy machine matters little.
const TAKES: Duration = Duration::from_millis(200);

/// Messages each second, from the first to the last.
async fn rate(db: &TestDb, queue: &'static str, concurrency: u32, messages: usize) -> f64 {
    let queue = Queue::of(queue, Partitions::of(4));
    let list = (0..messages).map(|n| message(&format!("k{}", n % 1_000), n / 1_000));
    let list: Vec<_> = list.collect();
    for chunk in list.chunks(500) {
        enqueue_batch(db.connection(), &queue, chunk.to_vec())
            .await
            .unwrap();
    }
    let watch = Watch::taking(TAKES);
    let began = Instant::now();
    let running = Outbox::builder(db.connection().clone())
        .queue(queue.name().to_owned(), queue.partitions())
        .concurrency(concurrency)
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    eventually("all", async || watch.done().len() == messages).await;
    let took = began.elapsed();
    running.stop().await;
    assert!(
        by_key(&watch.done())
            .values()
            .all(|numbers| numbers.is_sorted())
    );
    f64::from(u32::try_from(messages).unwrap()) / took.as_secs_f64()
}

/// Sleeping handlers: what is compared is the waiting, not the machine.
#[test]
fn sixteen_keys_at_a_time_are_at_least_twelve_times_as_fast() {
    outbox_tests::run(Engine::Postgres, true, |db| {
        Box::pin(async move {
            let one = rate(db, "one", 1, 60).await;
            let sixteen = rate(db, "sixteen", 16, 960).await;
            assert!(
                sixteen >= one * 12.0,
                "{sixteen:.0} and {one:.0} per second"
            );
        })
    });
}
