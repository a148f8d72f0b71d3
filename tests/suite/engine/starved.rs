//! A pool that has no connection left charges nobody.

use super::scripted::{Act, Kind, Scripted, create_ledger, ledger};
use super::*;
use outbox_runtime::Outbox;
use outbox_tests::on_every_engine;
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DatabaseTransaction, TransactionTrait,
};
use std::time::Instant;

const CONNECTIONS: u32 = 8;
const PATIENCE: Duration = Duration::from_millis(150);

/// A pool whose connections are soon not waited for any more.
async fn small_pool(db: &TestDb) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .sqlx_logging(false);
    Database::connect(options).await.expect("a pool")
}

/// Takes every connection of a pool and holds them; now and then one is free for
/// a statement.
async fn starve(pool: &DatabaseConnection, until: Instant) {
    let mut held: Vec<DatabaseTransaction> = Vec::new();
    while Instant::now() < until {
        match pool.begin().await {
            Ok(tx) => held.push(tx),
            Err(_) => {
                // Whoever waits first gets it, and then nobody for a while.
                if let Some(tx) = held.pop() {
                    tx.rollback().await.expect("rollback");
                }
            }
        }
    }
}

on_every_engine! {
    /// The outbox keeps some connections for its own statements, so that it can go on
    /// claiming. A handler's transaction needs one of the pool.
    async fn a_starved_pool_buries_no_message_that_never_ran(db: &TestDb) {
        create_ledger(db).await;
        let pool = small_pool(db).await;
        let handler = Scripted::new(Kind::TransactionalEach, |_, _| Act::Succeed);
        let queue = Outbox::builder(pool.clone())
            .profile(outbox_runtime::OutboxProfile::low_latency())
            .queue("orders", QUEUE.partitions())
            .lease(SHORT)
            .retry(soon(3));
        let running = handler.serve(queue).start().await.unwrap();
        // Something to do, so that there are connections to keep.
        commit_many(db, &QUEUE, "warm", 0..20).await;
        eventually("a warm start", async || handler.calls().len() == 20).await;
        let starving = starve(&pool, Instant::now() + SHORT.duration * 10);
        let sending = async {
            for n in 0..60 {
                commit(db.connection(), &format!("k{}", n % 8), n).await;
                tokio::time::sleep(SHORT.duration / 10).await;
            }
        };
        tokio::join!(starving, sending);
        drained(db).await;
        running.stop().await;
        let buried = db.texts("SELECT reason FROM outbox_dead_letter").await;
        assert_eq!(buried, Vec::<String>::new());
        let booked = ledger(db, &handler.kind().consumer()).await;
        assert_eq!(booked.len(), 80, "each once: {booked:?}");
        // Each charge is for a call.
        for call in handler.calls() {
            let calls = handler.calls_for(&call.text);
            let before = calls.iter().filter(|other| other.at < call.at).count();
            assert!(call.attempts as usize <= before, "{call:?} of {calls:?}");
        }
    }
}
