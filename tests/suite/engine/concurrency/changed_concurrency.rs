//! Many keys at a time, then one, then many again: each form of delivery knows what the other left.

use super::*;

/// Messages and how often they came, in order.
fn counts(watch: &Watch) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for text in watch.done() {
        *counts.entry(text).or_default() += 1;
    }
    counts
}

#[every_engine]
async fn messages_done_ahead_of_the_cursor_stay_done_with_one_key_at_a_time(db: &TestDb) {
    commit_keys(db, 6, 6).await;
    let script = |closed: bool| {
        move |message: &OutboxMessage| {
            let result = match message.payload() {
                b"k0:0" if closed => HandlerResult::retry_after(Duration::from_secs(2), "closed"),
                b"k1:2" => HandlerResult::reject("never"),
                _ => HandlerResult::Success,
            };
            (Duration::ZERO, result)
        }
    };
    let first = Watch::new(script(true));
    let running = log(db, 4).leased(first.clone()).start().await.unwrap();
    eventually("the other keys", async || first.done().len() == 29).await;
    running.stop().await;
    let second = Watch::new(script(false));
    let running = log(db, 1).leased(second.clone()).start().await.unwrap();
    drained(db).await;
    assert_eq!(
        second.done(),
        (0..6).map(|n| format!("k0:{n}")).collect::<Vec<_>>()
    );
    assert_eq!(second.calls(), 6);
    let letters = running.outbox().dead_letters();
    assert_eq!(
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap(),
        1
    );
    running.stop().await;
}

#[every_engine]
async fn a_failure_ahead_of_the_cursor_waits_its_backoff_out_with_one_key_at_a_time(db: &TestDb) {
    commit_keys(db, 3, 4).await;
    let seen: Arc<Mutex<Vec<(u32, Instant)>>> = Arc::default();
    let calls = seen.clone();
    let script = move |closed: bool| {
        let calls = calls.clone();
        move |message: &OutboxMessage| {
            let result = match message.payload() {
                b"k0:0" if closed => {
                    HandlerResult::retry_after(Duration::from_millis(50), "closed")
                }
                b"k1:1" => {
                    calls
                        .lock()
                        .unwrap()
                        .push((message.attempts(), Instant::now()));
                    match message.attempts() {
                        0 => HandlerResult::retry_after(Duration::from_secs(2), "later"),
                        _ => HandlerResult::Success,
                    }
                }
                _ => HandlerResult::Success,
            };
            (Duration::ZERO, result)
        }
    };
    let first = Watch::new(script(true));
    let running = log(db, 4)
        .retry(soon(1_000))
        .leased(first.clone())
        .start()
        .await
        .unwrap();
    eventually("one failure ahead", async || {
        first.done().len() == 5 && seen.lock().unwrap().len() == 1
    })
    .await;
    running.stop().await;
    let second = Watch::new(script(false));
    let running = log(db, 1).leased(second.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen.iter()
            .map(|(attempts, _)| *attempts)
            .collect::<Vec<_>>(),
        [0, 1]
    );
    let waited = seen[1].1 - seen[0].1;
    assert!(waited >= Duration::from_millis(1_950), "after {waited:?}");
    assert_eq!(second.calls(), 7, "nothing else came twice");
}

#[every_engine]
async fn a_failure_with_one_key_at_a_time_is_retried_with_many_keys(db: &TestDb) {
    commit_keys(db, 3, 4).await;
    let script = |message: &OutboxMessage| {
        let fails = message.payload() == b"k0:1" && message.attempts() < 2;
        let failed = HandlerResult::retry_after(Duration::from_millis(400), "not yet");
        (
            Duration::ZERO,
            if fails {
                failed
            } else {
                HandlerResult::Success
            },
        )
    };
    let watch = Watch::new(script);
    let running = log(db, 1).leased(watch.clone()).start().await.unwrap();
    eventually("the failure", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt").await == 1
    })
    .await;
    running.stop().await;
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(watch.calls(), 14, "two failures, nothing twice");
    assert!(counts(&watch).values().all(|count| *count == 1));
    assert!(
        by_key(&watch.done())
            .values()
            .all(|numbers| numbers.is_sorted())
    );
}
