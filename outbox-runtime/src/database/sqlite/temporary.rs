//! A database for one test.

use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{ConnectOptions, Database, DatabaseConnection};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A new SQLite database with the outbox's tables. It is in a temporary file, which is removed with
/// the last clone of the connection. It is not in memory, because there every connection is a
/// database of its own.
///
/// It is set up as a service should set up its own: with several connections and a write-ahead log.
///
/// # Panics
/// If the temporary directory cannot be written to.
pub async fn database() -> DatabaseConnection {
    let directory = Arc::new(Directory::create());
    let url = format!(
        "sqlite://{}?mode=rwc",
        directory.0.join("test.db").display()
    );
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(8)
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(|sqlite| {
            // A test's data need not survive a power cut.
            sqlite
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Off)
                .busy_timeout(Duration::from_secs(30))
        })
        .map_sqlx_sqlite_pool_opts(move |pool| {
            // The pool keeps this closure, and with it the directory.
            let directory = directory.clone();
            pool.after_connect(move |_, _| {
                let _ = &directory;
                Box::pin(async { Ok(()) })
            })
        });
    let db = Database::connect(options).await;
    let db = db.unwrap_or_else(|error| panic!("a temporary SQLite database: {error}"));
    let migrated = outbox_migrations::migrate(&db).await;
    migrated.unwrap_or_else(|error| panic!("a temporary SQLite database: {error}"));
    db
}

/// Removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn create() -> Self {
        let path = std::env::temp_dir().join(format!("outbox-test-{}", Uuid::new_v4().simple()));
        std::fs::create_dir(&path)
            .unwrap_or_else(|error| panic!("a directory {}: {error}", path.display()));
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It is temporary anyway.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sea_orm::ConnectionTrait;
    use std::time::Instant;

    #[tokio::test]
    async fn a_database_is_migrated_and_its_file_goes_with_its_last_connection() {
        let db = database().await;
        outbox_migrations::check(&db).await.expect("migrated");
        let file = db
            .query_one_raw(sea_orm::Statement::from_string(
                db.get_database_backend(),
                "SELECT file FROM pragma_database_list",
            ))
            .await
            .expect("a query")
            .expect("a row");
        let file: PathBuf = file.try_get_by_index::<String>(0).expect("a path").into();
        let other = db.clone();
        drop(db);
        assert!(file.exists());
        drop(other);
        let directory = file.parent().expect("a directory");
        // The pool ends on its own, a little later.
        let deadline = Instant::now() + Duration::from_secs(30);
        while directory.exists() {
            let left = directory.display();
            assert!(Instant::now() < deadline, "{left} is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
