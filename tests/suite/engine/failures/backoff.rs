//! A retry waits its time out, whatever else happens. A poll that finds nothing counts and writes
//! nothing.

use super::neighbours::one_of_each;
use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger};
use outbox::NewMessage;
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::every_engine;
use std::time::Instant;

/// Messages on the partitions that are not `k`'s.
fn elsewhere(n: usize) -> NewMessage {
    let others = u32::try_from(n % 3).unwrap() + 1;
    let partition = (QUEUE.partition_of_key(b"k") + others) % 4;
    message("x", n).to_partition(partition)
}

#[every_engine]
async fn a_retry_due_in_ten_seconds_is_not_run_early_by_a_thousand_others(db: &TestDb) {
    const WAIT: Duration = Duration::from_secs(10);
    let (running, handlers) = one_of_each(db, soon(9), |text, attempts| {
        if text == "k:0" && attempts == 0 {
            Act::RetryAfter(WAIT)
        } else {
            Act::Succeed
        }
    })
    .await;
    commit(db.connection(), "k", 0).await;
    eventually("the failures", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt WHERE failures = 1")
            .await
            == 4
    })
    .await;
    let failing = running.stats().await.unwrap().queues[0].consumers[0]
        .failing
        .clone();
    assert!(
        failing[0].due_in > WAIT / 2 && failing[0].due_in <= WAIT,
        "{failing:?}"
    );
    // Spread over much of the time.
    for part in 0..10 {
        let messages = (part * 100..part * 100 + 100).map(elsewhere);
        outbox::enqueue_batch(db.connection(), &QUEUE, messages)
            .await
            .unwrap();
        tokio::time::sleep(WAIT / 30).await;
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
        let meanwhile = handler
            .calls()
            .iter()
            .filter(|call| call.at < again.at)
            .count();
        assert!(
            meanwhile > 900,
            "{kind:?}: only {meanwhile} others passed meanwhile"
        );
    }
    running.stop().await;
}

#[every_engine]
async fn a_retry_waits_its_time_out_in_another_process_too(db: &TestDb) {
    const WAIT: Duration = Duration::from_secs(2);
    let handler = Scripted::new(Kind::LeasedEach, |text, attempts| {
        if text == "k:0" && attempts == 0 {
            Act::RetryAfter(WAIT)
        } else {
            Act::Succeed
        }
    });
    let start = async || {
        let queue = Outbox::builder(db.connect().await)
            .profile(OutboxProfile::low_latency())
            .queue("orders", QUEUE.partitions());
        handler.serve(queue).start().await.unwrap()
    };
    commit(db.connection(), "k", 0).await;
    let first = start().await;
    eventually("the failure", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt WHERE failures = 1")
            .await
            == 1
    })
    .await;
    first.stop().await;
    let (second, third) = (start().await, start().await);
    commit(db.connection(), "k", 1).await;
    drained(db).await;
    let texts: Vec<_> = handler
        .calls()
        .iter()
        .map(|call| (call.text.clone(), call.attempts))
        .collect();
    assert_eq!(
        texts,
        [("k:0".into(), 0), ("k:0".into(), 1), ("k:1".into(), 0)]
    );
    let waited = handler.calls()[1].at - handler.calls()[0].at;
    assert!(waited >= WAIT, "{waited:?}");
    second.stop().await;
    third.stop().await;
}

#[every_engine]
async fn an_empty_poll_counts_and_writes_nothing(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let claims = async || -> i64 {
        db.column("SELECT lease_epoch FROM outbox_cursor")
            .await
            .iter()
            .sum()
    };
    for n in 0..3 {
        commit(db.connection(), "k", n).await;
        drained(db).await;
        for _ in 0..20 {
            running.outbox().flush();
            running.outbox().resume("orders").await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    assert_eq!(claims().await, 3, "one for each message");
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_attempt").await, 0);
    running.stop().await;
}

#[every_engine]
async fn an_endless_backoff_waits_for_most_of_a_year(db: &TestDb) {
    create_ledger(db).await;
    let handler = Scripted::new(Kind::LeasedEach, |_, _| Act::Retry);
    let retry = RetryPolicy {
        base: Duration::MAX,
        max: Duration::MAX,
        ..soon(9)
    };
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(retry);
    let running = handler.serve(queue).start().await.unwrap();
    commit(db.connection(), "k", 0).await;
    eventually("the failure", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt WHERE failures = 1")
            .await
            == 1
    })
    .await;
    let failing = running.stats().await.unwrap().queues[0].consumers[0]
        .failing
        .clone();
    assert!(
        failing[0].due_in > Duration::from_secs(300 * 24 * 3600),
        "{failing:?}"
    );
    let began = Instant::now();
    running.stop().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "the wait does not hold up a stop"
    );
}

#[every_engine]
async fn a_limit_below_the_attempts_made_makes_a_dead_letter_with_the_last_reason(db: &TestDb) {
    let handler = Scripted::new(Kind::LeasedEach, |_, _| {
        Act::RetryAfter(Duration::from_millis(300))
    });
    let start = async |retry| {
        let queue = Outbox::builder(db.connection().clone())
            .profile(OutboxProfile::low_latency())
            .queue("orders", QUEUE.partitions())
            .retry(retry);
        handler.serve(queue).start().await.unwrap()
    };
    commit(db.connection(), "k", 0).await;
    let running = start(soon(9)).await;
    eventually("three failures", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt WHERE failures = 3")
            .await
            == 1
    })
    .await;
    running.stop().await;
    let made = handler.calls().len();
    let running = start(soon(2)).await;
    drained(db).await;
    running.stop().await;
    assert_eq!(handler.calls().len(), made, "it was not tried again");
    let letters = outbox::DeadLetters::new(db.connection().clone());
    let letters = letters
        .list(&outbox::DeadLetterFilter::new())
        .await
        .unwrap();
    assert!(
        letters[0].reason.starts_with("told to fail, after"),
        "{}",
        letters[0].reason
    );
    assert_eq!(letters[0].attempts as usize, made);
}
