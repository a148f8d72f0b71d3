//! Faults of the database: crashes, restarts, ended sessions, locks, old transactions.

use super::Target;
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
pub(super) async fn crash(target: &Target<'_>) {
    let Some(server) = target.server else { return };
    let _alone = target.at_server.lock().await;
    server.crash().await;
    target.fault_counts.add("server crashes", 1);
}

/// It ends in order, and with it every session.
pub(super) async fn restart(target: &Target<'_>) {
    let Some(server) = target.server else { return };
    let _alone = target.at_server.lock().await;
    server.restart().await;
    target.fault_counts.add("server restarts", 1);
}

/// Sessions are ended as an operator does.
pub(super) async fn end_sessions(target: &Target<'_>) {
    // The server may be down.
    if let Ok(ended) = target.db.end_some_connections().await {
        target.fault_counts.add("sessions ended", ended);
    }
}

/// Another program takes every connection that the server has left.
pub(super) async fn fill(target: &Target<'_>) {
    let mut options = ConnectOptions::new(target.db.url());
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
    target.fault_counts.add("full servers", 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(taken);
    let _ = crowd.close().await;
}

/// A table of ours is locked, as a migration or a careless operator does.
pub(super) async fn lock_storm(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let table = TABLES[rng.usize(..TABLES.len())];
    let hold = Duration::from_millis(rng.u64(200..1_500));
    if lock(target, table, hold).await.is_ok() {
        target.fault_counts.add("lock storms", 1);
    }
}

async fn lock(target: &Target<'_>, table: &str, hold: Duration) -> Result<(), DbErr> {
    let tx = target.db.connection().begin().await?;
    let lock = match target.db.engine() {
        Engine::Postgres => {
            tx.execute_unprepared("SET LOCAL lock_timeout = '2s'")
                .await?;
            format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        }
        Engine::MySql => format!("SELECT COUNT(*) FROM {table} FOR UPDATE"),
        // A writer locks the whole file.
        Engine::Sqlite => "DELETE FROM chaos_lease WHERE rule = ''".to_owned(),
    };
    tx.execute_unprepared(&lock).await?;
    tokio::time::sleep(hold).await;
    tx.rollback().await
}

/// A report or a dump: while it runs, nothing that was deleted is gone.
pub(super) async fn long_transaction(target: &Target<'_>) {
    if let Ok(tx) = old_snapshot(target).await {
        target.fault_counts.add("long transactions", 1);
        tokio::time::sleep(Duration::from_secs(8)).await;
        // A server that went down meanwhile has ended it.
        let _ = tx.rollback().await;
    }
}

async fn old_snapshot(target: &Target<'_>) -> Result<DatabaseTransaction, DbErr> {
    let db = target.db.connection();
    let tx = match target.db.engine() {
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
