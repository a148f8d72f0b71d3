//! Several versions of a program, several kinds of events.

use super::*;
use outbox::{Outbox, RetryPolicy};
use outbox_tests::{TestDb, eventually, every_engine};
use std::time::Duration;

/// Starts the default consumer, which takes these types.
async fn start(db: &TestDb, types: &[&str], seen: &Seen) -> outbox::OutboxHandle {
    Outbox::builder(db.connect().await)
        .queue("operations", QUEUE.partitions())
        .event_types(types.iter().copied())
        .retry(RetryPolicy {
            max_attempts: 2,
            base: Duration::from_millis(1),
            ..RetryPolicy::default()
        })
        .leased(seen.clone())
        .start()
        .await
        .expect("start")
}

#[every_engine]
async fn types_that_only_other_consumers_take_are_skipped(db: &TestDb) {
    let (orders, payments) = (Seen::default(), Seen::default());
    let running = Outbox::builder(db.connection().clone())
        .queue("operations", QUEUE.partitions())
        .event_types(["order"])
        .leased(orders.clone())
        .queue("operations", QUEUE.partitions())
        .consumer("payments")
        .event_types(["payment"])
        .leased(payments.clone())
        .start()
        .await
        .unwrap();
    for text in ["1", "2", "3"] {
        commit(db.connection(), "order", text).await;
        commit(db.connection(), "payment", text).await;
    }
    eventually("both", async || {
        orders.all().len() == 3 && payments.all().len() == 3
    })
    .await;
    assert_eq!(orders.all(), ["1", "2", "3"]);
    assert_eq!(payments.all(), ["1", "2", "3"]);
    eventually("vacuum", async || {
        db.number("SELECT COUNT(*) FROM outbox_body").await == 0
    })
    .await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    running.stop().await;
}

#[every_engine]
async fn an_old_process_leaves_new_types_to_newer_processes(db: &TestDb) {
    let (old, new) = (Seen::default(), Seen::default());
    let newer = start(db, &["order", "refund"], &new).await;
    let older = start(db, &["order"], &old).await;
    newer.stop().await;

    // The newer one was seen a moment ago: its type is neither skipped nor counted.
    commit(db.connection(), "refund", "r1").await;
    commit(db.connection(), "order", "o1").await;
    let left = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_epoch > 0 AND lease_until IS NULL";
    eventually("a claim given back", async || db.number(left).await == 1).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_attempt").await, 0);
    assert!(old.all().is_empty());

    let newer = start(db, &["order", "refund"], &new).await;
    eventually("the newer one", async || {
        new.all().contains(&"r1".to_owned())
    })
    .await;
    eventually("the rest", async || new.all().len() + old.all().len() == 2).await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    newer.stop().await;
    older.stop().await;
}

#[every_engine]
async fn a_type_that_no_process_serves_any_more_is_retried_and_then_becomes_a_dead_letter(
    db: &TestDb,
) {
    let (old, new) = (Seen::default(), Seen::default());
    start(db, &["order", "refund"], &new).await.stop().await;
    db.execute(match db.engine() {
        outbox_tests::Engine::Sqlite => "UPDATE outbox_consumer SET seen_at = 0",
        _ => "UPDATE outbox_consumer SET seen_at = '2020-01-01 00:00:00'",
    })
    .await;
    // Starting counts as being seen only for a process that handles everything.
    let older = start(db, &["order"], &old).await;
    commit(db.connection(), "refund", "r1").await;
    commit(db.connection(), "order", "o1").await;
    eventually("the other message", async || old.all() == ["o1"]).await;
    assert_eq!(
        db.number(
            "SELECT COUNT(*) FROM outbox_dead_letter WHERE event_type = 'refund' AND attempts = 2 \
                   AND reason LIKE '%no handler for event type%'"
        )
        .await,
        1
    );
    older.stop().await;
}

#[every_engine]
async fn an_unknown_type_becomes_a_dead_letter_and_the_partition_goes_on(db: &TestDb) {
    let seen = Seen::default();
    let running = start(db, &["order"], &seen).await;
    commit(db.connection(), "order", "1").await;
    commit(db.connection(), "never-heard-of", "?").await;
    commit(db.connection(), "order", "2").await;
    eventually("both orders", async || seen.all() == ["1", "2"]).await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter WHERE event_type = 'never-heard-of'")
            .await,
        1
    );
    running.stop().await;
}

#[every_engine]
async fn registering_is_enough_to_get_what_is_committed_later(db: &TestDb) {
    let (first, second) = (Seen::default(), Seen::default());
    let describe = |name: &str, seen: &Seen| {
        Outbox::builder(db.connection().clone())
            .queue("operations", QUEUE.partitions())
            .consumer(name)
            .leased(seen.clone())
    };
    commit(db.connection(), "order", "1").await;
    describe("first", &first).register().await.unwrap();
    describe("first", &first).register().await.unwrap();
    let running = describe("first", &first).start().await.unwrap();
    eventually("the first", async || first.all() == ["1"]).await;
    running.stop().await;
    describe("second", &second).register().await.unwrap();
    commit(db.connection(), "order", "2").await;
    let running = describe("second", &second).start().await.unwrap();
    eventually("the second", async || second.all() == ["2"]).await;
    running.stop().await;
}

#[every_engine]
async fn handlers_find_the_state_they_were_given(db: &TestDb) {
    struct Greeting(&'static str);
    #[derive(Clone, Default)]
    struct Greet(Seen);
    #[async_trait::async_trait]
    impl LeasedMessageHandler for Greet {
        async fn handle(&self, _: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
            assert!(ctx.state::<u128>().is_none());
            let greeting = ctx.state::<Greeting>().expect("given").0.to_owned();
            self.0.0.lock().unwrap().push(greeting);
            HandlerResult::Success
        }
    }
    let greet = Greet::default();
    let builder = || Outbox::builder(db.connection().clone()).state(Greeting("hello"));
    let running = builder()
        .queue("operations", QUEUE.partitions())
        .leased(greet.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "order", "1").await;
    eventually("the greeting", async || greet.0.all() == ["hello"]).await;
    running.stop().await;
    let twice = builder()
        .state(Greeting("again"))
        .start()
        .await
        .err()
        .expect("two states");
    assert!(twice.to_string().contains("Greeting"), "{twice}");
}
