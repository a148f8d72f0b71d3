//! Many keys at a time together with consumers, pauses, stops, dead letters and timeouts.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};

#[every_engine]
async fn consumers_of_every_kind_get_everything_in_order(db: &TestDb) {
    create_ledger(db).await;
    commit_keys(db, 6, 20).await;
    let (many, one) = (Watch::taking(Duration::from_millis(2)), Seen::default());
    let book = Scripted::new(Kind::TransactionalEach, |_, _| Act::Succeed);
    let builder = log(db, 4)
        .leased(many.clone())
        .queue("log", LOG.partitions())
        .consumer("one")
        .leased(one.clone());
    let running = book
        .serve(builder.queue("log", LOG.partitions()))
        .start()
        .await
        .unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!((many.calls(), one.count(), many.most()), (120, 120, 4));
    assert_eq!(ledger(db, &book.kind().consumer()).await.len(), 120);
    assert_eq!(by_key(&many.done()), one.by_key());
}

#[every_engine]
async fn a_pause_lets_running_handlers_end_and_starts_none(db: &TestDb) {
    commit_keys(db, 4, 3).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = log(db, 2).leased(gated.clone()).start().await.unwrap();
    gated.entered(2).await;
    running.outbox().pause("log").await.unwrap();
    gated.open();
    eventually("the lease given back", async || {
        db.number("SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL")
            .await
            == 0
    })
    .await;
    assert_eq!((gated.seen.count(), gated.dropped()), (2, 0));
    running.outbox().resume("log").await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(gated.seen.count(), 12, "each once");
    assert!(
        gated
            .seen
            .by_key()
            .values()
            .all(|numbers| *numbers == [0, 1, 2])
    );
}

#[every_engine]
async fn a_stop_counts_no_attempt_and_messages_done_ahead_stay_done(db: &TestDb) {
    commit_keys(db, 3, 1).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = log(db, 3).leased(gated.clone()).start().await.unwrap();
    gated.entered(3).await;
    // One of the three is done: perhaps not the first.
    gated.let_one_through();
    eventually("one done", async || gated.waiting() == 2).await;
    let report = running.stop_within(Duration::from_millis(50)).await;
    assert!(!report.clean);
    assert_eq!(gated.dropped(), 2);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_attempt WHERE NOT done")
            .await,
        0
    );
    gated.open();
    let running = log(db, 3).leased(gated.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(gated.seen.count(), 5, "two came again");
    assert_eq!(gated.attempts.lock().unwrap().iter().max(), Some(&0));
}

#[every_engine]
async fn a_message_that_times_out_becomes_a_dead_letter_while_other_keys_go_on(db: &TestDb) {
    commit_keys(db, 4, 5).await;
    let watch = Watch::new(|message| {
        let slow = message.payload() == b"k0:0";
        let takes = if slow {
            Duration::from_secs(60)
        } else {
            Duration::ZERO
        };
        (takes, HandlerResult::Success)
    });
    let running = log(db, 4)
        .timeout(Duration::from_millis(100))
        .retry(soon(2))
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    eventually("the other keys", async || {
        watch.done_unchecked().len() >= 15
    })
    .await;
    drained(db).await;
    let letters = running.outbox().dead_letters();
    let found = letters
        .list(&outbox::DeadLetterFilter::new())
        .await
        .unwrap();
    assert_eq!(
        (found.len(), found[0].attempts, &*found[0].payload),
        (1, 2, &b"k0:0"[..])
    );
    assert!(found[0].reason.contains("timed out"), "{}", found[0].reason);
    running.stop().await;
    assert_eq!(by_key(&watch.done_unchecked())["k0"], [1, 2, 3, 4]);
}

#[every_engine]
async fn a_requeued_dead_letter_is_delivered_to_its_consumer_alone(db: &TestDb) {
    commit_keys(db, 4, 3).await;
    let rejecting = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let told = rejecting.clone();
    let many = Watch::new(move |message| {
        let never = message.payload() == b"k1:1" && told.load(std::sync::atomic::Ordering::Acquire);
        let result = if never {
            HandlerResult::reject("never")
        } else {
            HandlerResult::Success
        };
        (Duration::ZERO, result)
    });
    let other = Watch::taking(Duration::ZERO);
    let running = log(db, 4)
        .leased(many.clone())
        .queue("log", LOG.partitions())
        .consumer("other")
        .concurrency(4)
        .leased(other.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    rejecting.store(false, std::sync::atomic::Ordering::Release);
    let letters = running.outbox().dead_letters();
    let scope = outbox::DeadLetterScope::matching(outbox::DeadLetterFilter::new());
    letters.requeue(scope).await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!((many.done().len(), other.done().len()), (12, 12));
    assert_eq!(many.done().last().map(String::as_str), Some("k1:1"));
}

/// The process does what comes before that message. It leaves that message and the rest to the
/// process that handles them.
#[every_engine]
async fn messages_before_one_that_only_another_process_handles_are_done(db: &TestDb) {
    let all = ["step", "other"];
    let complete = Watch::taking(Duration::ZERO);
    let start = async || {
        log(db, 4)
            .event_types(all)
            .leased(complete.clone())
            .start()
            .await
            .unwrap()
    };
    // Seen recently.
    start().await.stop().await;
    let of =
        |kind: &'static str, key: &str| NewMessage::new(kind, key.to_owned(), format!("{key}:0"));
    let before = (0..80).map(|n| of("step", &format!("a{n}")));
    let messages = before.chain([of("other", "b"), of("step", "c")]);
    enqueue_batch(db.connection(), &LOG, messages)
        .await
        .unwrap();
    let part = Watch::taking(Duration::ZERO);
    let running = log(db, 2)
        .event_types(["step"])
        .leased(part.clone())
        .start()
        .await
        .unwrap();
    eventually("what is before", async || part.done().len() == 80).await;
    let other = start().await;
    drained(db).await;
    running.stop().await;
    other.stop().await;
    assert!(complete.done().contains(&"b:0".to_owned()));
    assert_eq!(part.calls() + complete.calls(), 82, "each once");
}

#[every_engine]
async fn handlers_are_bounded_per_queue(db: &TestDb) {
    let queue = Queue::of("log", Partitions::of(1));
    commit_keys(db, 12, 5).await;
    let watch = Watch::taking(Duration::from_millis(5));
    let running = Outbox::builder(db.connection().clone())
        .handlers_per_queue(3)
        .queue("log", queue.partitions())
        .concurrency(8)
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!((watch.done().len(), watch.most()), (60, 3));
}
