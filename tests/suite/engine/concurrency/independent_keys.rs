//! Keys run at the same time, each in its order, and a key that fails holds up no other.

use super::*;

#[every_engine]
async fn keys_run_at_the_same_time_and_each_in_its_order(db: &TestDb) {
    commit_keys(db, 8, 25).await;
    let watch = Watch::taking(Duration::from_millis(5));
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let done = watch.done();
    assert_eq!((done.len(), watch.most()), (200, 4));
    for (key, numbers) in by_key(&done) {
        assert_eq!(numbers, (0..25).collect::<Vec<_>>(), "{key}");
    }
}

#[every_engine]
async fn a_key_that_fails_holds_up_no_other(db: &TestDb) {
    commit_keys(db, 10, 10).await;
    let watch = Watch::new(|message| {
        let fails = message.payload() == b"k3:0" && message.attempts() < 3;
        let failed = HandlerResult::retry_after(Duration::from_millis(700), "not yet");
        let result = if fails {
            failed
        } else {
            HandlerResult::Success
        };
        (Duration::from_millis(1), result)
    });
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    eventually("the other keys", async || watch.done().len() == 90).await;
    assert!(!by_key(&watch.done()).contains_key("k3"));
    let stats = running.stats().await.unwrap();
    let failing = &stats.queues[0].consumers[0].failing;
    assert_eq!((failing.len(), &*failing[0].key), (1, &b"k3"[..]));
    drained(db).await;
    running.stop().await;
    assert_eq!(watch.calls(), 103, "nothing else came twice");
    assert_eq!(by_key(&watch.done())["k3"], (0..10).collect::<Vec<_>>());
}

#[every_engine]
async fn a_full_window_waits_for_the_key_that_blocks_it(db: &TestDb) {
    commit_keys(db, 5, 40).await;
    let opened = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let open = opened.clone();
    let watch = Watch::new(move |message| {
        let fails =
            message.payload() == b"k0:0" && !open.load(std::sync::atomic::Ordering::Acquire);
        let failed = HandlerResult::retry_after(Duration::from_millis(50), "closed");
        let result = if fails {
            failed
        } else {
            HandlerResult::Success
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
    // Of the fifty in the window ten are k0's.
    eventually("a full window", async || watch.done().len() == 40).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        assert_eq!(watch.done().len(), 40);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    opened.store(true, std::sync::atomic::Ordering::Release);
    drained(db).await;
    running.stop().await;
    assert_eq!(watch.done().len(), 200);
    assert!(
        by_key(&watch.done())
            .values()
            .all(|numbers| numbers.is_sorted())
    );
}

#[every_engine]
async fn an_orderly_stop_hands_over_which_messages_are_done_ahead_of_the_cursor(db: &TestDb) {
    commit_keys(db, 10, 10).await;
    let fails = |closed: bool| {
        Watch::new(move |message| {
            let fails = closed && message.payload() == b"k0:0";
            let failed = HandlerResult::retry_after(Duration::from_millis(400), "closed");
            (
                Duration::ZERO,
                if fails {
                    failed
                } else {
                    HandlerResult::Success
                },
            )
        })
    };
    let first = fails(true);
    let running = log(db, 4).leased(first.clone()).start().await.unwrap();
    eventually("the other keys", async || first.done().len() == 90).await;
    assert!(running.stop().await.clean);
    let second = fails(false);
    let running = log(db, 4).leased(second.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(
        second.done(),
        (0..10).map(|n| format!("k0:{n}")).collect::<Vec<_>>()
    );
}

#[every_engine]
async fn a_message_that_cannot_succeed_becomes_one_dead_letter_ahead_of_the_cursor(db: &TestDb) {
    commit_keys(db, 4, 5).await;
    let script = |closed: bool| {
        move |message: &OutboxMessage| {
            let result = match message.payload() {
                b"k0:0" if closed => {
                    HandlerResult::retry_after(Duration::from_millis(400), "closed")
                }
                b"k1:2" => HandlerResult::reject("never"),
                b"k2:1" => HandlerResult::retry("no luck"),
                _ => HandlerResult::Success,
            };
            (Duration::ZERO, result)
        }
    };
    let first = Watch::new(script(true));
    let running = log(db, 4)
        .retry(soon(3))
        .leased(first.clone())
        .start()
        .await
        .unwrap();
    let letters = running.outbox().dead_letters();
    eventually("two letters", async || {
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap()
            == 2
            && first.done().len() == 13
    })
    .await;
    running.stop().await;
    let running = log(db, 4)
        .retry(soon(3))
        .leased(Watch::new(script(false)))
        .start()
        .await
        .unwrap();
    drained(db).await;
    let letters = running.outbox().dead_letters();
    assert_eq!(
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap(),
        2
    );
    running.stop().await;
}
