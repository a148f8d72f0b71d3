//! After the last fault everything is delivered, and nothing is left over.

use outbox_tests::{Engine, TestDb};
use std::time::{Duration, Instant};

/// How long something that ends by itself may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is on its way, or not yet deleted.
const TABLES: [&str; 4] = [
    "outbox_incoming",
    "outbox_outgoing",
    "outbox_body",
    "outbox_attempt",
];

/// Waits until nothing is on its way; says what is, once nothing has moved for long.
pub(crate) async fn drain(db: &TestDb, long: Duration) -> Vec<String> {
    let mut last = Vec::new();
    let mut moved_at = Instant::now();
    loop {
        let rows = rows(db).await;
        if rows.iter().all(|rows| *rows == 0) {
            return Vec::new();
        }
        let cursors = "SELECT processed_seq FROM outbox_cursor ORDER BY partition_id, consumer";
        let now = [rows.clone(), db.column(cursors).await].concat();
        if now != last {
            (last, moved_at) = (now, Instant::now());
        }
        if moved_at.elapsed() > long {
            let left = TABLES.iter().zip(rows).filter(|(_, rows)| *rows > 0);
            return left
                .map(|(table, rows)| format!("{rows} rows in {table}"))
                .collect();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn rows(db: &TestDb) -> Vec<i64> {
    let mut rows = Vec::new();
    for table in TABLES {
        rows.push(db.number(&format!("SELECT COUNT(*) FROM {table}")).await);
    }
    rows
}

/// While the workers are idle: transactions that one of them forgot to end.
pub(crate) async fn open_transactions(db: &TestDb) -> Vec<String> {
    let open = match db.engine() {
        Engine::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        }
        Engine::MySql => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx t \
             JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
             WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()"
        }
        Engine::Sqlite => return Vec::new(),
    };
    until_none(db, open, "open transactions").await
}

/// After all processes have ended: leases and connections.
pub(crate) async fn leases_and_connections(db: &TestDb) -> Vec<String> {
    let leases = "SELECT COUNT(*) FROM outbox_cursor \
                  WHERE lease_until IS NOT NULL OR lease_owner IS NOT NULL";
    let mut left = until_none(db, leases, "leases").await;
    let connections = match db.engine() {
        // The connections of the processes have a process id for a name.
        Engine::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name ~ '^[0-9]+$'"
        }
        // All of them but our own pool's, which are idle.
        Engine::MySql => {
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db = DATABASE() AND command <> 'Sleep' AND id <> CONNECTION_ID()"
        }
        Engine::Sqlite => return left,
    };
    left.extend(until_none(db, connections, "connections").await);
    left
}

async fn until_none(db: &TestDb, count: &str, what: &str) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match db.number(count).await {
            0 => return Vec::new(),
            left if Instant::now() > deadline => return vec![format!("{left} {what}")],
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
