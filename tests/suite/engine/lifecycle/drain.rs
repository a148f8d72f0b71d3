//! A drain waits until every committed message is handled.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox::DrainError;
use outbox_runtime::{Outbox, OutboxHandle};
use outbox_tests::every_engine;
use sea_orm::DatabaseConnection;
use std::time::Instant;
use tokio::time::timeout;

/// The deadline of a wait that must end.
const PLENTY: Duration = Duration::from_secs(20);
/// How long to watch a wait that must not end.
const A_WHILE: Duration = Duration::from_millis(300);

async fn all_is_handled(running: &OutboxHandle) {
    let drained = timeout(PLENTY, running.drained()).await;
    drained.expect("it waits for ever").unwrap();
}

/// Enqueues another message of its queue with each that it is given.
struct Endless(DatabaseConnection, Seen);

#[async_trait::async_trait]
impl LeasedMessageHandler for Endless {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.1.add(message);
        commit(&self.0, "k", self.1.count()).await;
        HandlerResult::Success
    }
}

#[every_engine]
async fn after_a_drain_all_consumers_have_handled_what_was_committed(db: &TestDb) {
    create_ledger(db).await;
    let consumers = Kind::ALL.map(|kind| Scripted::new(kind, |_, _| Act::Succeed));
    let many_keys = Seen::default();
    let first = orders(db.connection())
        .consumer("keys")
        .concurrency(4)
        .leased(many_keys.clone());
    let outbox = consumers.iter().fold(first, |outbox, scripted| {
        scripted.serve(outbox.queue("orders", QUEUE.partitions()))
    });
    let running = outbox.start().await.unwrap();
    for round in 0..5 {
        for key in ["a", "b", "c", "d", "e"] {
            commit_many(db, &QUEUE, key, round * 4..round * 4 + 4).await;
        }
        all_is_handled(&running).await;
        let sent = (round + 1) * 20;
        assert_eq!(many_keys.count(), sent);
        for scripted in &consumers {
            assert_eq!(scripted.calls().len(), sent, "{:?}", scripted.kind());
            if scripted.kind().is_transactional() {
                assert_eq!(ledger(db, &scripted.kind().consumer()).await.len(), sent);
            }
        }
    }
    running.stop().await;
}

#[every_engine]
async fn a_drain_waits_for_every_queue_of_the_process(db: &TestDb) {
    let (one, two) = (Seen::default(), Seen::default());
    let mails = Queue::of("mails", Partitions::of(2));
    let running = orders(db.connection())
        .leased(one.clone())
        .queue(mails.name(), mails.partitions())
        .leased(two.clone())
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..3).await;
    commit_many(db, &mails, "k", 0..3).await;
    all_is_handled(&running).await;
    assert_eq!((one.count(), two.count()), (3, 3));
    running.stop().await;
}

#[every_engine]
async fn a_drain_waits_until_a_failing_message_succeeds(db: &TestDb) {
    create_ledger(db).await;
    let pause = Duration::from_millis(100);
    for kind in [Kind::LeasedEach, Kind::TransactionalEach] {
        let failing = Scripted::new(kind, move |_, attempts| match attempts {
            0..3 => Act::RetryAfter(pause),
            _ => Act::Succeed,
        });
        let running = failing
            .serve(orders(db.connection()))
            .start()
            .await
            .unwrap();
        commit(db.connection(), "k", 0).await;
        all_is_handled(&running).await;
        assert_eq!(failing.calls().len(), 4, "{kind:?}");
        running.stop().await;
    }
}

#[every_engine]
async fn a_drain_waits_for_a_failing_key_among_many(db: &TestDb) {
    let failing = Scripted::new(Kind::LeasedEach, |text, attempts| match attempts {
        0..3 if text == "bad:0" => Act::RetryAfter(Duration::from_millis(100)),
        _ => Act::Succeed,
    });
    let queue = Outbox::builder(db.connection().clone()).queue("narrow", Partitions::of(1));
    let running = failing.serve(queue.concurrency(4)).start().await.unwrap();
    let narrow = Queue::of("narrow", Partitions::of(1));
    commit_many(db, &narrow, "bad", 0..2).await;
    commit_many(db, &narrow, "good", 0..4).await;
    all_is_handled(&running).await;
    assert_eq!(failing.calls().len(), 9);
    running.stop().await;
}

#[every_engine]
async fn a_drain_does_not_wait_for_dead_letters(db: &TestDb) {
    create_ledger(db).await;
    for kind in Kind::ALL {
        let failing = Scripted::new(kind, |text, _| match text {
            "k:0" => Act::Retry,
            "k:1" => Act::Reject,
            _ => Act::Succeed,
        });
        let queue = orders(db.connection()).retry(soon(2));
        let running = failing.serve(queue).start().await.unwrap();
        commit_many(db, &QUEUE, "k", 0..3).await;
        all_is_handled(&running).await;
        let buried = format!(
            "SELECT COUNT(*) FROM outbox_dead_letter WHERE consumer = '{}'",
            kind.consumer()
        );
        assert_eq!(db.number(&buried).await, 2, "{kind:?}");
        assert!(!failing.calls_for("k:2").is_empty());
        running.stop().await;
    }
}

#[every_engine]
async fn a_drain_with_nothing_to_do_returns_at_once(db: &TestDb) {
    let running = orders(db.connection())
        .leased(Seen::default())
        .start()
        .await
        .unwrap();
    let mut fastest = PLENTY;
    for _ in 0..10 {
        let began = Instant::now();
        all_is_handled(&running).await;
        fastest = fastest.min(began.elapsed());
    }
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
    running.stop().await;
}

#[every_engine]
async fn a_drain_does_not_wait_for_what_handlers_enqueue_meanwhile(db: &TestDb) {
    let endless = Endless(db.connection().clone(), Seen::default());
    let seen = endless.1.clone();
    let running = orders(db.connection())
        .leased(endless)
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    for _ in 0..3 {
        all_is_handled(&running).await;
        assert!(seen.count() > 0);
    }
    running.stop().await;
}

#[every_engine]
async fn a_drain_does_not_wait_for_unregistered_partitions(db: &TestDb) {
    let seen = Seen::default();
    let running = orders(db.connection())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let more = Queue::of("orders", Partitions::of(8));
    let beyond = message("k", 0).to_partition(5);
    enqueue(db.connection(), &more, beyond).await.unwrap();
    commit(db.connection(), "k", 1).await;
    all_is_handled(&running).await;
    assert_eq!(seen.all(), ["k:1"]);
    running.stop().await;
}

#[every_engine]
async fn a_drain_waits_for_a_paused_queue(db: &TestDb) {
    let seen = Seen::default();
    let running = orders(db.connection())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    running.outbox().pause("orders").await.unwrap();
    commit(db.connection(), "k", 0).await;
    timeout(A_WHILE, running.drained())
        .await
        .expect_err("no process handled it");
    assert_eq!(seen.count(), 0);
    running.outbox().resume("orders").await.unwrap();
    all_is_handled(&running).await;
    assert_eq!(seen.count(), 1);
    running.stop().await;
}

#[every_engine]
async fn a_stop_ends_a_drain(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    let running = orders(db.connection())
        .batch(1)
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..2).await;
    gated.entered(1).await;
    let outbox = running.outbox().clone();
    let waiting = tokio::spawn(async move { outbox.drained().await });
    timeout(A_WHILE, async {
        while !waiting.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect_err("the first is at work");
    let stopping = tokio::spawn(running.stop_within(PLENTY));
    let ended = timeout(PLENTY, waiting)
        .await
        .expect("it waits for ever")
        .unwrap();
    assert!(matches!(ended, Err(DrainError::Stopped)), "{ended:?}");
    gated.open();
    assert!(stopping.await.unwrap().clean);
}

#[every_engine]
async fn a_drain_of_a_stopped_outbox_does_not_wait(db: &TestDb) {
    let running = orders(db.connection())
        .leased(Seen::default())
        .start()
        .await
        .unwrap();
    let outbox = running.outbox().clone();
    running.stop().await;
    outbox.drained().await.unwrap();
    commit(db.connection(), "k", 0).await;
    let ended = timeout(PLENTY, outbox.drained())
        .await
        .expect("it waits for ever");
    assert!(matches!(ended, Err(DrainError::Stopped)), "{ended:?}");
}
