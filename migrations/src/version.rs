//! One version of the schema, and the table that records which are applied.
//!
//! Invariants: every statement of `up` may be repeated, and the row in
//! `outbox_schema` is written last. So on engines whose DDL cannot be rolled back,
//! running the version again repairs a crash half-way. `down`
//! deletes the row first and, for the first version, drops `outbox_schema` last.

use crate::SchemaError;
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

/// Records applied versions, and from which version on a program can work with them. It is not part
/// of a version, because it must be there before the first one. Programs older than the first release look for a column
/// `version`, do not find it, and stop.
pub(crate) const CREATE_SCHEMA_TABLE: PerEngine = PerEngine {
    postgres: "CREATE TABLE IF NOT EXISTS outbox_schema (
    number integer PRIMARY KEY,
    compatible_from integer NOT NULL,
    applied_at timestamptz(6) NOT NULL
)",
    mysql: "CREATE TABLE IF NOT EXISTS outbox_schema (
    number INT NOT NULL,
    compatible_from INT NOT NULL,
    applied_at DATETIME(6) NOT NULL,
    PRIMARY KEY (number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin",
    sqlite: "CREATE TABLE IF NOT EXISTS outbox_schema (
    number INTEGER PRIMARY KEY,
    compatible_from INTEGER NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT",
};

/// `{number}` and `{compatible_from}` are replaced by numbers of ours.
pub(crate) const INSERT_VERSION: PerEngine = PerEngine {
    postgres: "INSERT INTO outbox_schema (number, compatible_from, applied_at) \
               VALUES ({number}, {compatible_from}, clock_timestamp()) ON CONFLICT DO NOTHING",
    mysql: "INSERT IGNORE INTO outbox_schema (number, compatible_from, applied_at) \
            VALUES ({number}, {compatible_from}, UTC_TIMESTAMP(6))",
    sqlite: "INSERT INTO outbox_schema (number, compatible_from, applied_at) \
             VALUES ({number}, {compatible_from}, \
                CAST(unixepoch('subsec') * 1000000 AS INTEGER)) ON CONFLICT DO NOTHING",
};

/// Whether the connection's unqualified names lead to an `outbox_schema`, and whether it is
/// that of a release. Returns a row with 1 (of a release) or 0, or no row.
const SCHEMA_TABLE: PerEngine = PerEngine {
    postgres: "SELECT CASE WHEN attname = 'number' THEN 1 ELSE 0 END::bigint FROM pg_attribute \
        WHERE attrelid = to_regclass('outbox_schema') AND attname IN ('number', 'version')",
    mysql: "SELECT CAST(CASE WHEN column_name = 'number' THEN 1 ELSE 0 END AS SIGNED) \
        FROM information_schema.columns WHERE table_schema = DATABASE() \
            AND table_name = 'outbox_schema' AND column_name IN ('number', 'version')",
    sqlite: "SELECT CASE WHEN name = 'number' THEN 1 ELSE 0 END \
        FROM pragma_table_info('outbox_schema') WHERE name IN ('number', 'version')",
};

/// What `outbox_schema` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Installed {
    /// No version is complete.
    Nothing,
    /// The tables are those of a program from before the first release.
    Prerelease,
    /// The newest version, and from which version on a program can work with it.
    Version { number: i32, compatible_from: i32 },
}

/// If two processes create the same table at once, one gets an error from
/// PostgreSQL's catalogue, even with IF NOT EXISTS. The lock ends with the
/// transaction. Its number is the word "outbox" in ASCII.
pub(crate) const LOCK_SCHEMA_POSTGRES: &str = "SELECT pg_advisory_xact_lock(122598473425784)";

/// One version of the schema, also usable as a migration of a user's Migrator.
pub(crate) struct SchemaVersion {
    pub(crate) number: i32,
    /// The oldest version of the schema whose programs can work with this one.
    pub(crate) compatible_from: i32,
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
        match installed(conn).await? {
            Installed::Version { number, .. } if number >= self.number => return Ok(false),
            Installed::Prerelease => {
                return Err(DbErr::Custom(SchemaError::Prerelease.to_string()));
            }
            Installed::Version { .. } | Installed::Nothing => {}
        }
        for statement in self.statements(backend)? {
            conn.execute_unprepared(&statement).await?;
        }
        Ok(true)
    }

    /// Removes this version again.
    pub(crate) async fn revert<C: ConnectionTrait>(&self, conn: &C) -> Result<(), DbErr> {
        let backend = conn.get_database_backend();
        if schema_table(conn).await? == Some(SchemaTable::Released) {
            let forget = format!("DELETE FROM outbox_schema WHERE number = {}", self.number);
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
            .replace("{number}", &self.number.to_string())
            .replace("{compatible_from}", &self.compatible_from.to_string());
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

/// What the database has.
pub(crate) async fn installed<C: ConnectionTrait>(conn: &C) -> Result<Installed, DbErr> {
    match schema_table(conn).await? {
        None => return Ok(Installed::Nothing),
        Some(SchemaTable::Prerelease) => return Ok(Installed::Prerelease),
        Some(SchemaTable::Released) => {}
    }
    let newest = Statement::from_string(
        conn.get_database_backend(),
        "SELECT number, compatible_from FROM outbox_schema ORDER BY number DESC LIMIT 1",
    );
    let Some(row) = conn.query_one_raw(newest).await? else {
        return Ok(Installed::Nothing);
    };
    Ok(Installed::Version {
        number: row.try_get_by_index(0)?,
        compatible_from: row.try_get_by_index(1)?,
    })
}

/// Whose table `outbox_schema` is.
#[derive(PartialEq, Eq)]
enum SchemaTable {
    Released,
    Prerelease,
}

async fn schema_table<C: ConnectionTrait>(conn: &C) -> Result<Option<SchemaTable>, DbErr> {
    let backend = conn.get_database_backend();
    let probe = Statement::from_string(backend, SCHEMA_TABLE.of(backend)?);
    let Some(row) = conn.query_one_raw(probe).await? else {
        return Ok(None);
    };
    Ok(Some(match row.try_get_by_index::<i64>(0)? {
        0 => SchemaTable::Prerelease,
        _ => SchemaTable::Released,
    }))
}

/// Our files end each statement with a semicolon at the end of a line, and
/// have none elsewhere at the end of a line.
fn split(sql: &'static str) -> impl Iterator<Item = &'static str> {
    sql.split(";\n").map(str::trim).filter(|s| !s.is_empty())
}
