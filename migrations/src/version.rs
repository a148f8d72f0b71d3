//! One version of the schema, and the table that records which are applied.
//!
//! Invariants: every statement of `up` may be repeated, and the row in
//! `outbox_schema` is written last. So a crash half-way, on engines whose DDL
//! cannot be rolled back, is repaired by running the version again. `down`
//! takes the row away first and, for version 1, drops `outbox_schema` last.

use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use sea_orm_migration::{MigrationName, MigrationTrait, SchemaManager};

/// A text for each engine.
#[derive(Clone, Copy)]
pub(crate) struct PerEngine {
    pub(crate) postgres: &'static str,
    pub(crate) mysql: &'static str,
    pub(crate) sqlite: &'static str,
}

impl PerEngine {
    pub(crate) const fn same(sql: &'static str) -> Self {
        Self {
            postgres: sql,
            mysql: sql,
            sqlite: sql,
        }
    }

    pub(crate) fn of(self, backend: DbBackend) -> Result<&'static str, DbErr> {
        match backend {
            DbBackend::Postgres => Ok(self.postgres),
            DbBackend::MySql => Ok(self.mysql),
            DbBackend::Sqlite => Ok(self.sqlite),
            other => Err(DbErr::BackendNotSupported {
                db: other.as_str(),
                ctx: "the outbox schema",
            }),
        }
    }
}

/// Records applied versions. Not part of a version: it must be there before one.
pub(crate) const CREATE_SCHEMA_TABLE: PerEngine = PerEngine {
    postgres: "CREATE TABLE IF NOT EXISTS outbox_schema (
    version integer PRIMARY KEY,
    applied_at timestamptz(6) NOT NULL
)",
    mysql: "CREATE TABLE IF NOT EXISTS outbox_schema (
    version INT NOT NULL,
    applied_at DATETIME(6) NOT NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
    sqlite: "CREATE TABLE IF NOT EXISTS outbox_schema (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT",
};

/// `{version}` is replaced by a number of ours.
pub(crate) const INSERT_VERSION: PerEngine = PerEngine {
    postgres: "INSERT INTO outbox_schema (version, applied_at) \
               VALUES ({version}, clock_timestamp()) ON CONFLICT DO NOTHING",
    mysql: "INSERT IGNORE INTO outbox_schema (version, applied_at) \
            VALUES ({version}, UTC_TIMESTAMP(6))",
    sqlite: "INSERT INTO outbox_schema (version, applied_at) \
             VALUES ({version}, CAST(unixepoch('subsec') * 1000000 AS INTEGER)) ON CONFLICT DO NOTHING",
};

/// Whether `outbox_schema` is where the connection's unqualified names lead.
const SCHEMA_TABLE_EXISTS: PerEngine = PerEngine {
    postgres: "SELECT 1 WHERE to_regclass('outbox_schema') IS NOT NULL",
    mysql: "SELECT 1 FROM information_schema.tables \
            WHERE table_schema = DATABASE() AND table_name = 'outbox_schema'",
    sqlite: "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'outbox_schema'",
};

/// Two processes that create the same table at once trip over each other in
/// PostgreSQL's catalogue, IF NOT EXISTS or not. The lock ends with the
/// transaction; its number is the word "outbox" in ASCII.
pub(crate) const LOCK_SCHEMA_POSTGRES: &str = "SELECT pg_advisory_xact_lock(122598473425784)";

/// One version of the schema, also usable as a migration of a user's Migrator.
pub(crate) struct SchemaVersion {
    pub(crate) number: i32,
    pub(crate) name: &'static str,
    pub(crate) up: PerEngine,
    pub(crate) down: PerEngine,
}

impl SchemaVersion {
    /// Applies this version unless it is recorded as applied; says whether it did.
    pub(crate) async fn apply<C: ConnectionTrait>(&self, conn: &C) -> Result<bool, DbErr> {
        let backend = conn.get_database_backend();
        if backend == DbBackend::Postgres {
            conn.execute_unprepared(LOCK_SCHEMA_POSTGRES).await?;
        }
        if installed(conn).await?.is_some_and(|v| v >= self.number) {
            return Ok(false);
        }
        for statement in self.statements(backend)? {
            conn.execute_unprepared(&statement).await?;
        }
        Ok(true)
    }

    /// Takes this version away again.
    pub(crate) async fn revert<C: ConnectionTrait>(&self, conn: &C) -> Result<(), DbErr> {
        let backend = conn.get_database_backend();
        if table_exists(conn).await? {
            let forget = format!("DELETE FROM outbox_schema WHERE version = {}", self.number);
            conn.execute_unprepared(&forget).await?;
        }
        for statement in split(self.down.of(backend)?) {
            conn.execute_unprepared(statement).await?;
        }
        Ok(())
    }

    /// Everything `apply` runs, in order, each statement repeatable.
    pub(crate) fn statements(&self, backend: DbBackend) -> Result<Vec<String>, DbErr> {
        let create = CREATE_SCHEMA_TABLE.of(backend)?;
        let record = INSERT_VERSION
            .of(backend)?
            .replace("{version}", &self.number.to_string());
        let up = split(self.up.of(backend)?).map(str::to_owned);
        Ok(std::iter::once(create.to_owned())
            .chain(up)
            .chain([record])
            .collect())
    }
}

impl MigrationName for SchemaVersion {
    fn name(&self) -> &str {
        self.name
    }
}

#[async_trait::async_trait]
impl MigrationTrait for SchemaVersion {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        self.apply(manager.get_connection()).await.map(drop)
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        self.revert(manager.get_connection()).await
    }
}

/// The highest version recorded in the database, `None` if there is none.
pub(crate) async fn installed<C: ConnectionTrait>(conn: &C) -> Result<Option<i32>, DbErr> {
    if !table_exists(conn).await? {
        return Ok(None);
    }
    let newest = Statement::from_string(
        conn.get_database_backend(),
        "SELECT version FROM outbox_schema ORDER BY version DESC LIMIT 1",
    );
    conn.query_one_raw(newest)
        .await?
        .map(|row| row.try_get_by_index(0))
        .transpose()
}

async fn table_exists<C: ConnectionTrait>(conn: &C) -> Result<bool, DbErr> {
    let backend = conn.get_database_backend();
    let probe = Statement::from_string(backend, SCHEMA_TABLE_EXISTS.of(backend)?);
    Ok(conn.query_one_raw(probe).await?.is_some())
}

/// Our files end each statement with a semicolon at the end of a line, and
/// have none elsewhere at the end of a line.
fn split(sql: &'static str) -> impl Iterator<Item = &'static str> {
    sql.split(";\n").map(str::trim).filter(|s| !s.is_empty())
}
