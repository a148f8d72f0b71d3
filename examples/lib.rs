//! What the examples share: a database, waiting for a condition, and printing what happens.

pub mod warehouse;

use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbErr, Statement};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// A database to run an example on, and its temporary file if it has one.
pub struct ExampleDb {
    /// The connections.
    pub db: DatabaseConnection,
    /// Where it is.
    pub url: String,
    _directory: Option<tempfile::TempDir>,
}

/// Connects to `DATABASE_URL`, or to a new SQLite file that is deleted when the
/// program ends.
///
/// # Errors
/// If the database does not answer.
pub async fn connect() -> Result<ExampleDb, Box<dyn std::error::Error>> {
    let named = std::env::var("DATABASE_URL").ok();
    let (url, directory) = match named.filter(|url| !url.is_empty()) {
        Some(url) => (url, None),
        None => {
            let directory = tempfile::tempdir()?;
            let file = directory.path().join("example.db");
            let url = format!("sqlite://{}?mode=rwc", file.display());
            (url, Some(directory))
        }
    };
    Ok(ExampleDb {
        db: open(&url).await?,
        url,
        _directory: directory,
    })
}

/// Connects to a database.
///
/// # Errors
/// If it does not answer.
pub async fn open(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(10).sqlx_logging(false);
    let db = Database::connect(options).await?;
    if url.starts_with("sqlite:") {
        // Readers and the writer do not wait for each other.
        db.execute_unprepared("PRAGMA journal_mode = WAL").await?;
    }
    Ok(db)
}

/// Makes a table anew.
///
/// # Errors
/// If the database refuses.
pub async fn table(db: &DatabaseConnection, name: &str, columns: &str) -> Result<(), DbErr> {
    db.execute_unprepared(&format!("DROP TABLE IF EXISTS {name}"))
        .await?;
    db.execute_unprepared(&format!("CREATE TABLE {name} ({columns})"))
        .await?;
    Ok(())
}

/// How many rows a table has.
///
/// # Errors
/// If the database refuses.
pub async fn count(db: &DatabaseConnection, table: &str) -> Result<u64, DbErr> {
    let sql = format!("SELECT COUNT(*) FROM {table}");
    let row = db
        .query_one_raw(Statement::from_string(db.get_database_backend(), sql))
        .await?;
    let rows: i64 = row.map_or(Ok(0), |row| row.try_get_by_index(0))?;
    Ok(rows.unsigned_abs())
}

/// Says what happened: a word and a sentence.
pub fn say(word: &str, sentence: impl Display) {
    println!("{word:<12} {sentence}");
}

/// Says what happened, and what it proves.
pub fn prove(word: &str, what: impl Display, proof: &str) {
    println!("{word:<12} {:<42} {proof}", what.to_string());
}

/// Waits until a condition is true.
///
/// # Errors
/// If it is still false after 30 seconds.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        if Instant::now() > deadline {
            return Err(format!("waited 30 s in vain for {what}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
