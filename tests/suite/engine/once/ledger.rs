//! Exactly once with the database: the ledger balances, whatever the handlers do.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::Outbox;
use outbox_tests::every_engine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;

const MESSAGES: usize = 120;

/// Every other call does something bad, by chance, from a fixed seed.
fn by_chance(seed: u64) -> impl Fn(&str, u32) -> Act + Send + Sync {
    let random = Mutex::new(StdRng::seed_from_u64(seed));
    move |_, _| match random.lock().unwrap().random_range(0..24) {
        0..4 => Act::Retry,
        4 => Act::Reject,
        5..8 => Act::FailSql,
        8..11 => Act::IgnoreFailedSql,
        11 | 12 => Act::Panic,
        _ => Act::Succeed,
    }
}

async fn assert_balanced(db: &TestDb, kind: Kind) {
    create_ledger(db).await;
    let handler = Scripted::new(kind, by_chance(7));
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .batch(10)
        .retry(soon(1_000));
    let running = handler.serve(queue).start().await.unwrap();
    for key in 0..6 {
        commit_many(db, &QUEUE, &format!("key{key}"), 0..MESSAGES / 6).await;
    }
    drained(db).await;
    let done = ledger(db, &kind.consumer()).await;
    let buried = "SELECT COUNT(*) FROM outbox_dead_letter";
    let buried = usize::try_from(db.number(buried).await).unwrap();
    assert_eq!(done.len() + buried, MESSAGES);
    assert!(
        buried > 0 && done.len() > MESSAGES / 2,
        "chance did its work"
    );
    let distinct: BTreeSet<&String> = done.iter().collect();
    assert_eq!(distinct.len(), done.len(), "an effect happened twice");
    let payload = match db.engine() {
        outbox_tests::Engine::Postgres => "convert_from(payload, 'UTF8')",
        _ => "CAST(payload AS CHAR(64))",
    };
    for dead in db
        .texts(&format!("SELECT {payload} FROM outbox_dead_letter"))
        .await
    {
        assert!(!distinct.contains(&dead), "{dead} is dead and took effect");
    }
    running.stop().await;
}

#[every_engine]
async fn the_ledger_balances_message_by_message(db: &TestDb) {
    assert_balanced(db, Kind::TransactionalEach).await;
}

#[every_engine]
async fn the_ledger_balances_batch_by_batch(db: &TestDb) {
    assert_balanced(db, Kind::TransactionalBatch).await;
}

#[every_engine]
async fn an_ignored_database_error_is_charged_to_its_own_message(db: &TestDb) {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..10).await;
    let handler = Scripted::new(Kind::TransactionalEach, |text, attempts| {
        if text == "k:4" && attempts < 2 {
            Act::IgnoreFailedSql
        } else {
            Act::Succeed
        }
    });
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(5));
    let running = handler.serve(queue).start().await.unwrap();
    drained(db).await;
    let expected: Vec<String> = (0..10).map(|n| format!("k:{n}")).collect();
    assert_eq!(ledger(db, "TransactionalEach").await, expected);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    for call in handler.calls() {
        assert!(call.attempts == 0 || call.text == "k:4", "{call:?}");
    }
    running.stop().await;
}
