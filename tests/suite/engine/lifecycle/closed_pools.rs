//! A pool can be closed once its outbox has stopped, even while handles to the outbox exist.

use super::*;
use outbox_runtime::OutboxHandle;
use outbox_tests::{every_engine, postgres};
use sea_orm::{ConnectionTrait, DatabaseConnection, TransactionTrait};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(5);

/// An outbox that has just worked, so that its connection cache is not empty.
async fn worked(db: &TestDb) -> (OutboxHandle, DatabaseConnection) {
    let (pool, seen) = (db.connect().await, Seen::default());
    let running = orders(&pool).leased(seen.clone()).start().await.unwrap();
    for key in ["a", "b", "c", "d"] {
        commit_many(db, &QUEUE, key, 0..25).await;
    }
    seen.reaches(100).await;
    (running, pool)
}

async fn closes(pool: DatabaseConnection) {
    let closed = timeout(SOON, pool.close()).await;
    closed.expect("a connection is kept").unwrap();
}

#[every_engine]
async fn after_a_stop_the_connection_cache_is_empty(db: &TestDb) {
    let (running, pool) = worked(db).await;
    let kept = running.outbox().clone();
    assert!(running.stop().await.clean);
    closes(pool).await;
    drop(kept);
}

#[every_engine]
async fn without_its_handle_an_outbox_holds_no_connection(db: &TestDb) {
    let (running, pool) = worked(db).await;
    let kept = running.outbox().clone();
    drop(running);
    closes(pool).await;
    drop(kept);
}

#[every_engine]
async fn a_handle_may_be_dropped_where_there_is_no_runtime(db: &TestDb) {
    let (running, pool) = worked(db).await;
    let kept = running.outbox().clone();
    let elsewhere = std::thread::spawn(move || drop(running));
    elsewhere.join().expect("it panicked");
    closes(pool).await;
    drop(kept);
}

/// Only on PostgreSQL connections are cached from one statement to the next.
#[postgres]
async fn a_connection_in_use_when_the_outbox_stops_is_not_cached_afterwards(db: &TestDb) {
    let (running, pool) = worked(db).await;
    let kept = running.outbox().clone();
    let locked = db.connection().begin().await.unwrap();
    let lock = "LOCK TABLE outbox_cursor, outbox_incoming IN ACCESS EXCLUSIVE MODE";
    locked.execute_unprepared(lock).await.unwrap();
    kept.flush();
    until_blocked(db).await;
    drop(running);
    locked.rollback().await.unwrap();
    closes(pool).await;
    drop(kept);
}
