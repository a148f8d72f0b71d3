//! What makes a poor place for an outbox, said at start.

use crate::database::statement::{Run, statements, values};
use sea_orm::DatabaseConnection;

statements! { SQLITE;
    JOURNAL_MODE = "PRAGMA journal_mode";
}

/// What should be different.
pub(in crate::database) async fn advice(db: &DatabaseConnection) -> Vec<&'static str> {
    let mut advice = Vec::new();
    let mode = JOURNAL_MODE.first(db, values! {}).await.ok().flatten();
    let mode = mode.and_then(|row| row.try_get_by::<String, _>("journal_mode").ok());
    if mode.is_some_and(|mode| mode != "wal") {
        advice.push(
            "the SQLite database is not in WAL mode: readers and the writer wait for each other. \
             Run `PRAGMA journal_mode = WAL` once",
        );
    }
    if has_one_connection(db) {
        advice.push(
            "the pool of the SQLite database has one connection: while a transaction is open \
             everything else waits, and a transactional handler that uses `db` instead of its `tx` \
             waits for itself. Allow more connections",
        );
    }
    advice
}

#[cfg(feature = "sqlite")]
fn has_one_connection(db: &DatabaseConnection) -> bool {
    let pool = db.get_sqlite_connection_pool();
    pool.options().get_max_connections() == 1
}

#[cfg(not(feature = "sqlite"))]
fn has_one_connection(_: &DatabaseConnection) -> bool {
    false
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use sea_orm::{ConnectOptions, ConnectionTrait, Database};

    async fn said_of(file: &std::path::Path, connections: u32, mode: &str) -> usize {
        let url = format!("sqlite://{}?mode=rwc", file.display());
        let mut options = ConnectOptions::new(url);
        options.max_connections(connections);
        let db = Database::connect(options).await.expect("a file");
        let pragma = format!("PRAGMA journal_mode = {mode}");
        db.execute_unprepared(&pragma).await.expect("a mode");
        advice(&db).await.len()
    }

    #[tokio::test]
    async fn a_file_without_wal_and_a_pool_of_one_are_worth_a_word() {
        let directory = std::env::temp_dir().join(format!("outbox-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).expect("a directory");
        let file = directory.join("test.db");
        let found = [
            said_of(&file, 1, "DELETE").await,
            said_of(&file, 1, "WAL").await,
            said_of(&file, 5, "WAL").await,
        ];
        std::fs::remove_dir_all(&directory).expect("the directory");
        assert_eq!(found, [2, 1, 0]);
    }
}
