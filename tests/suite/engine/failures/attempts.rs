//! Attempts are counted per message, up to a limit, and a retry waits its time out.

use super::neighbours::one_of_each;
use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::{Outbox, OutboxBuilder, QueueBuilder};
use outbox_tests::{Engine, every_engine};

/// The attempts a handler was told of with a message, without repetitions: a
/// transactional batch that fails runs its good part again within one attempt.
fn counted(handler: &Scripted, text: &str) -> Vec<u32> {
    let mut counts: Vec<u32> = handler.calls_for(text).iter().map(|c| c.attempts).collect();
    counts.dedup();
    counts
}

/// Stops a consumer in its second attempt of a message, and lets it go on afterwards.
async fn assert_one_attempt_is_left_on_record(
    db: &TestDb,
    name: &str,
    serve: impl Fn(QueueBuilder, Gated) -> OutboxBuilder,
) {
    let gated = Gated::new(OnCancel::FailOnce);
    let start = async || {
        let queue = orders(db.connection()).consumer(name).retry(soon(2));
        serve(queue, gated.clone()).start().await.unwrap()
    };
    let running = start().await;
    commit(db.connection(), "k", 0).await;
    gated.entered(2).await;
    let report = running.stop_within(Duration::from_millis(100)).await;
    assert_eq!(report.interrupted, 1, "{name}: {report:?}");
    let left = [
        records(db, "failures = 1 AND deaths = 0").await,
        records(db, "1 = 1").await,
    ];
    assert_eq!(left, [1, 1], "{name}");
    gated.open();
    let running = start().await;
    eventually("no record", async || records(db, "1 = 1").await == 0).await;
    running.stop().await;
    let attempts = gated.attempts.lock().unwrap().clone();
    assert_eq!(
        attempts,
        [0, 1, 1],
        "{name}: the second attempt comes again"
    );
    let buried = db.number("SELECT COUNT(*) FROM outbox_dead_letter").await;
    assert_eq!(buried, 0, "{name}");
}

/// How many records of attempts there are for which something holds.
async fn records(db: &TestDb, condition: &str) -> i64 {
    let count = format!("SELECT COUNT(*) FROM outbox_attempt WHERE {condition}");
    db.number(&count).await
}

#[every_engine]
async fn a_stop_in_a_second_attempt_leaves_one_on_record(db: &TestDb) {
    create_ledger(db).await;
    assert_one_attempt_is_left_on_record(db, "each", |queue, gated| queue.leased(gated)).await;
    assert_one_attempt_is_left_on_record(db, "keys", |queue, gated| {
        queue.concurrency(4).leased(gated)
    })
    .await;
    assert_one_attempt_is_left_on_record(db, "booked", |queue, gated| queue.transactional(gated))
        .await;
}

/// A death was charged before it ran, so that there is a record before it fails.
#[every_engine]
async fn a_suspect_that_fails_waits_its_time_out_and_leaves_its_reason(db: &TestDb) {
    create_ledger(db).await;
    let scripted = Kind::ALL
        .map(|kind| Scripted::new(kind, |_, _| Act::RetryAfter(Duration::from_secs(3_600))));
    let keys = Scripted::new(Kind::LeasedEach, |_, _| {
        Act::RetryAfter(Duration::from_secs(3_600))
    });
    let start = async || {
        let mut builder = Outbox::builder(db.connection().clone());
        for handler in &scripted {
            builder = handler.serve(builder.queue("orders", QUEUE.partitions()));
        }
        let queue = builder.queue("orders", QUEUE.partitions()).consumer("keys");
        queue
            .concurrency(4)
            .leased(keys.clone())
            .start()
            .await
            .unwrap()
    };
    // Makes the cursors.
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, claimed_seq = 1, \
         lease_until = {} WHERE partition_id = {}",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
    let running = start().await;
    let late = format!("not_before > {}", db.from_now(3_000_000));
    let written =
        format!("failures = 1 AND deaths = 0 AND last_error = 'told to fail, after 0' AND {late}");
    eventually("five records", async || records(db, &written).await == 5).await;
    running.stop().await;
    for handler in scripted.iter().chain([&keys]) {
        assert_eq!(handler.calls().len(), 1, "{:?}", handler.kind());
    }
}

#[every_engine]
async fn attempts_count_up_per_message_and_neighbours_inherit_none(db: &TestDb) {
    commit_many(db, &QUEUE, "k", 0..6).await;
    let (running, handlers) = one_of_each(db, soon(9), |text, attempts| match text {
        "k:1" if attempts < 2 => Act::Retry,
        "k:2" if attempts < 1 => Act::Panic,
        "k:4" if attempts < 3 => Act::Retry,
        _ => Act::Succeed,
    })
    .await;
    drained(db).await;
    for handler in &handlers {
        let expected: [&[u32]; 6] = [&[0], &[0, 1, 2], &[0, 1], &[0], &[0, 1, 2, 3], &[0]];
        for (n, expected) in expected.into_iter().enumerate() {
            let found = counted(handler, &format!("k:{n}"));
            assert_eq!(found, expected, "k:{n} of {:?}", handler.kind());
        }
    }
    running.stop().await;
}

#[every_engine]
async fn a_message_that_always_fails_becomes_a_dead_letter_with_its_last_reason(db: &TestDb) {
    commit_many(db, &QUEUE, "k", 0..5).await;
    let (running, handlers) = one_of_each(db, soon(3), |text, _| match text {
        "k:1" => Act::Retry,
        "k:3" => Act::Panic,
        _ => Act::Succeed,
    })
    .await;
    drained(db).await;
    for handler in &handlers {
        let kind = handler.kind();
        assert_eq!(counted(handler, "k:1"), [0, 1, 2], "{kind:?}");
        let of = format!("consumer = '{}' AND attempts = 3", kind.consumer());
        let reasons = format!("SELECT reason FROM outbox_dead_letter WHERE {of} ORDER BY seq");
        let expected = ["told to fail, after 2", "panicked: told to panic"];
        assert_eq!(db.texts(&reasons).await, expected, "{kind:?}");
        if kind.is_transactional() {
            assert_eq!(ledger(db, &kind.consumer()).await, ["k:0", "k:2", "k:4"]);
        }
    }
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        8
    );
    running.stop().await;
}

#[every_engine]
async fn two_hundred_failures_neither_overflow_nor_get_lost(db: &TestDb) {
    create_ledger(db).await;
    let handler = Scripted::new(Kind::LeasedEach, |text, _| {
        if text == "k:0" {
            Act::Retry
        } else {
            Act::Succeed
        }
    });
    let retry = RetryPolicy {
        base: Duration::ZERO,
        max: Duration::ZERO,
        ..soon(200)
    };
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(retry);
    let running = handler.serve(queue).start().await.unwrap();
    commit_many(db, &QUEUE, "k", 0..2).await;
    drained(db).await;
    assert_eq!(counted(&handler, "k:0"), (0..200).collect::<Vec<_>>());
    assert_eq!(counted(&handler, "k:1"), [0]);
    let buried = "SELECT COUNT(*) FROM outbox_dead_letter WHERE attempts = 200";
    assert_eq!(db.number(buried).await, 1);
    running.stop().await;
}

#[every_engine]
async fn a_retry_waits_its_time_out_while_new_traffic_arrives(db: &TestDb) {
    const WAIT: Duration = Duration::from_millis(700);
    let (running, handlers) = one_of_each(db, soon(9), |text, attempts| {
        if text == "k:0" && attempts == 0 {
            Act::RetryAfter(WAIT)
        } else {
            Act::Succeed
        }
    })
    .await;
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    let mut sent = 0;
    while handlers
        .iter()
        .any(|handler| counted(handler, "k:0") != [0, 1])
    {
        pace.tick().await;
        commit(db.connection(), "k", sent).await;
        sent += 1;
        assert!(sent < 1_000, "the retry never came");
    }
    drained(db).await;
    for handler in &handlers {
        let kind = handler.kind();
        let calls = handler.calls_for("k:0");
        let failed = calls
            .iter()
            .rfind(|call| call.attempts == 0)
            .expect("a failure");
        let again = calls
            .iter()
            .find(|call| call.attempts == 1)
            .expect("a retry");
        let waited = again.at - failed.at;
        assert!(waited >= WAIT, "{kind:?} was run again after {waited:?}");
        // Nothing of its key went past it.
        let next = handler.calls_for("k:1");
        assert!(next.iter().all(|call| call.at > again.at), "{kind:?}");
        assert_eq!(
            handler.calls().last().expect("calls").text,
            format!("k:{}", sent - 1)
        );
    }
    running.stop().await;
}

/// The record of a message keeps the time of its first failure; later failures do not change it.
#[every_engine]
async fn the_time_of_the_first_failure_stays(db: &TestDb) {
    let handler = Scripted::new(Kind::LeasedEach, |_, _| {
        Act::RetryAfter(Duration::from_millis(30))
    });
    let queue = eager_orders(db.connection()).retry(soon(1_000));
    let running = handler.serve(queue).start().await.unwrap();
    commit(db.connection(), "k", 0).await;
    let failed = async |times: u32| {
        let count = "SELECT COUNT(*) FROM outbox_attempt WHERE failures";
        db.number(&format!("{count} >= {times}")).await == 1
    };
    let first = async || {
        let texts = match db.engine() {
            Engine::Sqlite => "SELECT CAST(first_failed_at AS TEXT) FROM outbox_attempt",
            Engine::MySql => "SELECT CAST(first_failed_at AS CHAR) FROM outbox_attempt",
            Engine::Postgres => "SELECT first_failed_at::text FROM outbox_attempt",
        };
        db.texts(texts).await
    };
    eventually("a failure", async || failed(1).await).await;
    let noted = first().await;
    eventually("more", async || failed(4).await).await;
    assert_eq!(first().await, noted);
    assert_eq!(noted.len(), 1);
    running.stop().await;
}
