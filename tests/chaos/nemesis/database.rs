//! Faults of the database: crashes, restarts, ended sessions, locks, old transactions.

use super::Ground;
use outbox_tests::Engine;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseTransaction, DbErr, IsolationLevel,
    TransactionTrait,
};
use std::time::Duration;

const TABLES: [&str; 7] = [
    "outbox_queue",
    "outbox_partition",
    "outbox_body",
    "outbox_incoming",
    "outbox_outgoing",
    "outbox_cursor",
    "outbox_attempt",
];

/// It dies without writing anything down, and recovers.
pub(super) async fn crash(ground: &Ground<'_>) {
    let Some(server) = ground.server else { return };
    let _alone = ground.at_server.lock().await;
    server.crash().await;
    ground.tally.add("server crashes", 1);
}

/// It ends in order, and with it every session.
pub(super) async fn restart(ground: &Ground<'_>) {
    let Some(server) = ground.server else { return };
    let _alone = ground.at_server.lock().await;
    server.restart().await;
    ground.tally.add("server restarts", 1);
}

/// Sessions are ended as an operator does.
pub(super) async fn end_sessions(ground: &Ground<'_>) {
    // The server may be down.
    if let Ok(ended) = ground.db.end_some_connections().await {
        ground.tally.add("sessions ended", ended);
    }
}

/// Somebody else takes every connection that the server has left.
pub(super) async fn fill(ground: &Ground<'_>) {
    let mut options = ConnectOptions::new(ground.db.url());
    options
        .max_connections(1_000)
        .acquire_timeout(Duration::from_millis(500))
        .sqlx_logging(false);
    let Ok(crowd) = Database::connect(options).await else {
        return;
    };
    let mut taken = Vec::new();
    while let Ok(tx) = crowd.begin().await {
        taken.push(tx);
    }
    ground.tally.add("full servers", 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(taken);
    let _ = crowd.close().await;
}

/// A table of ours is locked, as a migration or a careless operator does.
pub(super) async fn lock_storm(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let table = TABLES[rng.usize(..TABLES.len())];
    let hold = Duration::from_millis(rng.u64(200..1_500));
    if lock(ground, table, hold).await.is_ok() {
        ground.tally.add("lock storms", 1);
    }
}

async fn lock(ground: &Ground<'_>, table: &str, hold: Duration) -> Result<(), DbErr> {
    let tx = ground.db.connection().begin().await?;
    let lock = match ground.db.engine() {
        Engine::Postgres => {
            tx.execute_unprepared("SET LOCAL lock_timeout = '2s'")
                .await?;
            format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        }
        Engine::MySql => format!("SELECT COUNT(*) FROM {table} FOR UPDATE"),
        // Whoever writes has the whole file.
        Engine::Sqlite => "DELETE FROM chaos_lease WHERE rule = ''".to_owned(),
    };
    tx.execute_unprepared(&lock).await?;
    tokio::time::sleep(hold).await;
    tx.rollback().await
}

/// A report or a dump: while it runs, nothing that was deleted is gone.
pub(super) async fn long_transaction(ground: &Ground<'_>) {
    if let Ok(tx) = old_snapshot(ground).await {
        ground.tally.add("long transactions", 1);
        tokio::time::sleep(Duration::from_secs(8)).await;
        // A server that went down meanwhile has ended it.
        let _ = tx.rollback().await;
    }
}

async fn old_snapshot(ground: &Ground<'_>) -> Result<DatabaseTransaction, DbErr> {
    let db = ground.db.connection();
    let tx = match ground.db.engine() {
        Engine::Sqlite => db.begin().await?,
        Engine::Postgres | Engine::MySql => {
            let level = Some(IsolationLevel::RepeatableRead);
            db.begin_with_config(level, None).await?
        }
    };
    tx.execute_unprepared("SELECT COUNT(*) FROM outbox_body")
        .await?;
    Ok(tx)
}
