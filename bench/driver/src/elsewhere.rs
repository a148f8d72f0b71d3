//! Databases on MariaDB and SQLite: created for a run, and deleted after it.

use crate::server::Error;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use std::path::PathBuf;

fn mariadb_url() -> Result<String, Error> {
    Ok(std::env::var("BENCH_MYSQL_URL").map_err(|_| "BENCH_MYSQL_URL names no server")?)
}

/// Which MariaDB it is.
pub async fn version() -> Result<String, Error> {
    let mut admin = MySqlConnection::connect(&mariadb_url()?).await?;
    let version: String = admin.fetch_one("SELECT VERSION()").await?.try_get(0)?;
    Ok(version)
}

/// A new database on the MariaDB that BENCH_MYSQL_URL names.
pub async fn mariadb(name: &str) -> Result<String, Error> {
    let url = mariadb_url()?;
    let mut admin = MySqlConnection::connect(&url).await?;
    for sql in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
        admin
            .execute(AssertSqlSafe(format!("{sql} {name}")))
            .await?;
    }
    let (server, _) = url.rsplit_once('/').ok_or("the URL has no database")?;
    Ok(format!("{server}/{name}"))
}

/// A new file among the temporary ones.
pub fn sqlite(name: &str) -> Result<(String, PathBuf), Error> {
    let directory = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory)?;
    let file = directory.join("outbox.db");
    Ok((format!("sqlite://{}?mode=rwc", file.display()), directory))
}
