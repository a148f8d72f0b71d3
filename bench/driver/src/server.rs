//! The server: a database for each run, and what the server counted meanwhile.

use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use std::str::FromStr;
use std::time::Duration;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A server whose databases we make and drop.
pub struct Server {
    url: String,
    admin: PgConnection,
}

/// What the server has counted so far in a database.
pub struct Counts {
    wal: i64,
    pub statements: i64,
    rows: i64,
}

impl Server {
    pub async fn connect(url: &str) -> Result<Self, Error> {
        let mut admin = PgConnection::connect(url).await?;
        admin
            .execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            .await?;
        let url = url.to_owned();
        Ok(Self { url, admin })
    }

    pub async fn version(&mut self) -> Result<String, Error> {
        let row = self.admin.fetch_one("SHOW server_version").await?;
        Ok(row.try_get(0)?)
    }

    /// A new database; returns its URL.
    pub async fn create(&mut self, name: &str) -> Result<String, Error> {
        self.drop(name).await?;
        self.run(format!("CREATE DATABASE {name}")).await?;
        let (server, _) = self.url.rsplit_once('/').ok_or("the URL has no database")?;
        Ok(format!("{server}/{name}"))
    }

    pub async fn drop(&mut self, name: &str) -> Result<(), Error> {
        self.run(format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .await
    }

    async fn run(&mut self, sql: String) -> Result<(), Error> {
        self.admin.execute(AssertSqlSafe(sql)).await?;
        Ok(())
    }

    /// Before a run: writes everything to disk, and makes fresh statistics.
    pub async fn settle(&mut self, url: &str) -> Result<(), Error> {
        let mut database = PgConnection::connect(url).await?;
        database.execute("VACUUM ANALYZE").await?;
        database.close().await?;
        self.run("CHECKPOINT".to_owned()).await
    }

    pub async fn counts(&mut self, name: &str) -> Result<Counts, Error> {
        // The statistics of sessions that ended arrive a little later.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let row = sqlx::query(
            "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, \
                COALESCE((SELECT sum(s.calls) FROM pg_stat_statements s WHERE s.dbid = d.oid), 0)::bigint, \
                pg_stat_get_db_tuples_inserted(d.oid) + pg_stat_get_db_tuples_updated(d.oid) \
                    + pg_stat_get_db_tuples_deleted(d.oid) \
             FROM pg_database d WHERE d.datname = $1",
        )
        .bind(name)
        .fetch_one(&mut self.admin)
        .await?;
        Ok(Counts {
            wal: row.try_get(0)?,
            statements: row.try_get(1)?,
            rows: row.try_get(2)?,
        })
    }

    /// How many sessions a database has now.
    pub async fn sessions(&mut self, name: &str) -> Result<i64, Error> {
        let row = sqlx::query("SELECT count(*) FROM pg_stat_activity WHERE datname = $1")
            .bind(name)
            .fetch_one(&mut self.admin)
            .await?;
        Ok(row.try_get(0)?)
    }

    pub async fn dead_rows(&mut self, url: &str) -> Result<i64, Error> {
        let mut database = PgConnection::connect(url).await?;
        let row = database
            .fetch_one("SELECT COALESCE(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables")
            .await?;
        Ok(row.try_get(0)?)
    }

    /// A transaction that stays open and sees the database as it is now.
    pub async fn pin(&self, url: &str) -> Result<PgConnection, Error> {
        let mut old = PgConnectOptions::from_str(url)?.connect().await?;
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        old.execute("SELECT count(*) FROM pg_class").await?;
        Ok(old)
    }
}

impl Counts {
    pub fn since(&self, before: &Self) -> Value {
        json!({
            "wal_bytes": self.wal - before.wal,
            "statements": self.statements - before.statements,
            "rows": self.rows - before.rows,
        })
    }
}
