//! What the examples share: where the database is.

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbErr};

/// A database to run an example on, and its temporary file if it has one.
pub struct ExampleDb {
    /// The connections.
    pub db: DatabaseConnection,
    _directory: Option<tempfile::TempDir>,
}

/// Connects to `DATABASE_URL`, or to a new SQLite file that goes when the
/// program ends.
///
/// # Errors
/// If the database does not answer.
pub async fn connect() -> Result<ExampleDb, Box<dyn std::error::Error>> {
    let (url, directory) = match std::env::var("DATABASE_URL") {
        Ok(url) => (url, None),
        Err(_) => {
            let directory = tempfile::tempdir()?;
            let file = directory.path().join("orders.db");
            (
                format!("sqlite://{}?mode=rwc", file.display()),
                Some(directory),
            )
        }
    };
    let db = open(&url).await?;
    Ok(ExampleDb {
        db,
        _directory: directory,
    })
}

async fn open(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(10).sqlx_logging(false);
    let db = Database::connect(options).await?;
    if url.starts_with("sqlite:") {
        // Readers and the writer do not wait for each other.
        db.execute_unprepared("PRAGMA journal_mode = WAL").await?;
    }
    Ok(db)
}
