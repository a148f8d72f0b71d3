//! A key that cannot go on: what it costs the other keys, and how stats show it.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// The messages that are not of the key `k0`, each second, until all are done.
async fn rate_of_others(db: &TestDb, queue: &'static str, fails: bool) -> f64 {
    const KEYS: usize = 41;
    const EACH: usize = 20;
    let log = Queue::of(queue, Partitions::of(1));
    let numbers = (0..EACH).flat_map(|n| (0..KEYS).map(move |key| (key, n)));
    let messages = numbers.map(|(key, n)| message(&format!("k{key}"), n));
    enqueue_batch(db.connection(), &log, messages)
        .await
        .unwrap();
    let begun: Arc<Mutex<Option<Instant>>> = Arc::default();
    let first = begun.clone();
    let watch = Watch::new(move |message| {
        first.lock().unwrap().get_or_insert_with(Instant::now);
        let fails = fails && message.payload() == b"k0:0";
        let failed = HandlerResult::retry_after(Duration::from_millis(300), "closed");
        let result = if fails {
            failed
        } else {
            HandlerResult::Success
        };
        (Duration::from_millis(40), result)
    });
    let running = Outbox::builder(db.connection().clone())
        .queue(queue, log.partitions())
        .concurrency(8)
        .retry(soon(1_000_000))
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    let others = || {
        let done = watch.done();
        let other = done.iter().filter(|text| !text.starts_with("k0:"));
        (done.len(), other.count())
    };
    eventually("the others", async || others().1 == (KEYS - 1) * EACH).await;
    let took = begun.lock().unwrap().expect("a beginning").elapsed();
    let done = u32::try_from(others().0).unwrap();
    running.stop().await;
    f64::from(done) / took.as_secs_f64()
}

#[every_engine]
async fn a_key_that_fails_for_ever_costs_the_others_less_than_a_tenth(db: &TestDb) {
    // Both at once: what else the machine does in the meantime slows both.
    let (healthy, blocked) = tokio::join!(
        rate_of_others(db, "healthy", false),
        rate_of_others(db, "blocked", true),
    );
    assert!(
        blocked > healthy * 0.9,
        "{blocked:.0} instead of {healthy:.0} per second"
    );
}

#[every_engine]
async fn a_dead_letter_frees_a_full_window(db: &TestDb) {
    commit_keys(db, 5, 40).await;
    let hopeless = Arc::new(AtomicBool::new(false));
    let told = hopeless.clone();
    let watch = Watch::new(move |message| {
        let result = match message.payload() {
            b"k0:0" if told.load(Ordering::Acquire) => HandlerResult::reject("enough"),
            b"k0:0" => HandlerResult::retry_after(Duration::from_millis(100), "closed"),
            b"k1:3" if !told.load(Ordering::Acquire) => {
                HandlerResult::retry_after(Duration::from_millis(100), "closed too")
            }
            _ => HandlerResult::Success,
        };
        (Duration::ZERO, result)
    });
    let running = log(db, 4)
        .window(50)
        .retry(soon(1_000))
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    // Fifty in the window: ten of k0, and seven of k1 behind the one that fails.
    eventually("a full window", async || watch.done().len() == 33).await;
    let stats = running.stats().await.unwrap();
    let mut failing = stats.queues[0].consumers[0].failing.clone();
    failing.sort_by(|a, b| a.key.cmp(&b.key));
    let shown: Vec<_> = failing.iter().map(|f| (&*f.key, f.blocking)).collect();
    assert_eq!(shown, [(&b"k0"[..], true), (&b"k1"[..], false)]);
    hopeless.store(true, Ordering::Release);
    drained(db).await;
    let letters = running.outbox().dead_letters();
    assert_eq!(
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap(),
        1
    );
    running.stop().await;
    assert_eq!(watch.done().len(), 199);
    assert!(
        by_key(&watch.done())
            .values()
            .all(|numbers| numbers.is_sorted())
    );
}

#[every_engine]
async fn a_window_is_full_of_bytes_too(db: &TestDb) {
    for n in 0..40 {
        let large = NewMessage::new("step", format!("k{n}"), vec![b'x'; 1024 * 1024]);
        enqueue(db.connection(), &LOG, large.max_payload(2 * 1024 * 1024))
            .await
            .unwrap();
    }
    // All that are known wait for an hour, so nothing but bytes bounds what is read.
    let hour = Duration::from_secs(3600);
    let watch = Watch::new(move |_| (Duration::ZERO, HandlerResult::retry_after(hour, "closed")));
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    eventually("a full window", async || watch.calls() >= 16).await;
    let mut known = 0;
    for _ in 0..20 {
        known = db
            .number("SELECT MAX(claimed_seq) FROM outbox_cursor")
            .await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.stop().await;
    assert!(
        (16..=24).contains(&known),
        "{known} messages of 1 MiB are known"
    );
}
