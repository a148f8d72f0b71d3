//! One message fails, its neighbours do not notice.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::{Outbox, OutboxHandle};
use outbox_tests::every_engine;

/// A consumer of each kind, all with the same script.
pub(super) async fn one_of_each(
    db: &TestDb,
    retry: RetryPolicy,
    script: impl Fn(&str, u32) -> Act + Send + Sync + Copy + 'static,
) -> (OutboxHandle, Vec<Scripted>) {
    create_ledger(db).await;
    let handlers = Kind::ALL.map(|kind| Scripted::new(kind, script));
    let mut builder = Outbox::builder(db.connection().clone());
    for handler in &handlers {
        let queue = builder.queue("orders", QUEUE.partitions()).retry(retry);
        builder = handler.serve(queue);
    }
    (builder.start().await.unwrap(), handlers.to_vec())
}

/// What took effect: in the ledger, or for a leased handler what it was given.
pub(super) async fn effects(db: &TestDb, handler: &Scripted) -> Vec<String> {
    if handler.kind().is_transactional() {
        return ledger(db, &handler.kind().consumer()).await;
    }
    let mut texts: Vec<String> = handler.calls().into_iter().map(|call| call.text).collect();
    texts.sort();
    texts
}

fn texts(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|n| format!("k:{n}")).collect()
}

#[every_engine]
async fn a_partial_batch_keeps_its_prefix_once(db: &TestDb) {
    commit_many(db, &QUEUE, "k", 0..10).await;
    let (running, handlers) = one_of_each(db, soon(9), |text, attempts| {
        if text == "k:4" && attempts < 2 {
            Act::Retry
        } else {
            Act::Succeed
        }
    })
    .await;
    drained(db).await;
    for handler in &handlers {
        let kind = handler.kind();
        let mut expected = texts(0..10);
        if !kind.is_transactional() {
            // The failing one three times, the others once.
            expected = texts([0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9]);
        }
        assert_eq!(effects(db, handler).await, expected, "{kind:?}");
        let failing = handler.calls_for("k:4");
        let retries = failing.iter().filter(|call| call.attempts > 0);
        assert_eq!(
            retries.map(|call| call.batch).collect::<Vec<_>>(),
            [1, 1],
            "{kind:?}"
        );
        if kind == Kind::LeasedBatch {
            assert!(failing[0].batch > 1, "it was in a batch at first");
        }
    }
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    running.stop().await;
}

#[every_engine]
async fn a_rejected_message_goes_to_the_dead_letters_alone(db: &TestDb) {
    let mut ids = Vec::new();
    for n in 0..10 {
        let options = outbox::EnqueueOptions::new().header("trace", format!("t{n}"));
        let sent = message("k", n).with(options);
        ids.push(enqueue(db.connection(), &QUEUE, sent).await.unwrap().get());
    }
    let (running, handlers) = one_of_each(db, soon(9), |text, _| {
        if text == "k:4" {
            Act::Reject
        } else {
            Act::Succeed
        }
    })
    .await;
    drained(db).await;
    let (key, partition) = (db.quoted("key"), db.quoted("partition"));
    for handler in &handlers {
        let kind = handler.kind();
        let expected = if kind.is_transactional() {
            texts([0, 1, 2, 3, 5, 6, 7, 8, 9])
        } else {
            texts(0..10)
        };
        assert_eq!(effects(db, handler).await, expected, "{kind:?}");
        let row = format!(
            "FROM outbox_dead_letter WHERE consumer = '{}' AND enqueued_at <= failed_at \
             AND deadline IS NULL AND completed_at IS NULL AND requeued_as IS NULL",
            kind.consumer()
        );
        assert_eq!(
            db.column(&format!("SELECT message_id {row}")).await,
            [ids[4]],
            "{kind:?}"
        );
        assert_eq!(db.number(&format!("SELECT seq {row}")).await, 5);
        let number = i64::from(QUEUE.partition_of_key(b"k"));
        assert_eq!(
            db.number(&format!("SELECT COUNT(*) {row} AND {partition} = {number}"))
                .await,
            1
        );
        assert_eq!(
            db.number(&format!("SELECT COUNT(*) {row} AND attempts = 1"))
                .await,
            1
        );
        for (column, expected) in [
            ("queue", "orders"),
            ("event_type", "step"),
            ("headers", r#"{"trace":"t4"}"#),
            ("reason", "told to fail, after 0"),
            ("status", "pending"),
        ] {
            assert_eq!(
                db.texts(&format!("SELECT {column} {row}")).await,
                [expected],
                "{kind:?}"
            );
        }
        for (column, expected) in [(key.as_str(), "k"), ("payload", "k:4")] {
            let backend = db.connection().get_database_backend();
            let sql = sea_orm::Statement::from_string(backend, format!("SELECT {column} {row}"));
            let found = sea_orm::ConnectionTrait::query_one_raw(db.connection(), sql)
                .await
                .unwrap();
            let bytes: Vec<u8> = found.expect("a row").try_get_by_index(0).unwrap();
            assert_eq!(bytes, expected.as_bytes());
        }
    }
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        4
    );
    running.stop().await;
}

#[every_engine]
async fn a_batch_handler_that_takes_no_message_loses_none(db: &TestDb) {
    struct Idle;
    #[async_trait::async_trait]
    impl outbox_runtime::LeasedHandler for Idle {
        async fn handle(&self, batch: &mut outbox_runtime::Batch<'_>, _: &Ctx) -> HandlerResult {
            // Acknowledging what was not handed out does nothing.
            batch.ack_chunk(100);
            HandlerResult::Success
        }
    }
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(2))
        .leased_batch(Idle)
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..3).await;
    drained(db).await;
    let buried = "SELECT seq FROM outbox_dead_letter WHERE attempts = 2 ORDER BY seq";
    assert_eq!(db.column(buried).await, [1, 2, 3]);
    running.stop().await;
}

#[every_engine]
async fn several_rejected_messages_of_a_batch_are_the_only_dead_letters(db: &TestDb) {
    commit_many(db, &QUEUE, "k", 0..30).await;
    let rejected = |text: &str| text.ends_with('7') || text.ends_with('8');
    let (running, handlers) = one_of_each(db, soon(9), move |text, _| {
        if rejected(text) {
            Act::Reject
        } else {
            Act::Succeed
        }
    })
    .await;
    drained(db).await;
    for handler in &handlers {
        let kind = handler.kind();
        let mut all = texts(0..30);
        all.sort();
        if kind.is_transactional() {
            all.retain(|text| !rejected(text));
        }
        assert_eq!(effects(db, handler).await, all, "{kind:?}");
        let dead = "SELECT seq FROM outbox_dead_letter WHERE consumer";
        let dead = format!("{dead} = '{}' ORDER BY seq", kind.consumer());
        assert_eq!(db.column(&dead).await, [8, 9, 18, 19, 28, 29], "{kind:?}");
    }
    running.stop().await;
}
