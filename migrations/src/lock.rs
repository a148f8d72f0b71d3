//! One process at a time changes the schema.
//!
//! Everything runs on one connection, inside what sea-orm calls a transaction.
//! PostgreSQL and SQLite roll DDL back, so there it is a real one. MySQL
//! commits at every DDL statement, so there a named lock of the session keeps
//! other processes out. We release it before the connection goes back to the pool. The server
//! releases it if the process dies.

use crate::SchemaError;
use crate::version::LOCK_SCHEMA_POSTGRES;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait,
};

const WAIT_SECONDS: u32 = 120;

/// A lock's name is known in the whole server, so it must contain the database. A name has 64
/// characters at most, so it contains a hash of the database's name.
const LOCK_SCHEMA_MYSQL: &str = "SELECT CAST(GET_LOCK(\
    CONCAT('outbox.', LEFT(SHA2(DATABASE(), 256), 40)), {seconds}) AS SIGNED)";
const UNLOCK_SCHEMA_MYSQL: &str =
    "DO RELEASE_LOCK(CONCAT('outbox.', LEFT(SHA2(DATABASE(), 256), 40)))";

/// The right to change the schema, and the connection to do it on.
pub(crate) struct SchemaLock {
    tx: DatabaseTransaction,
    doing: &'static str,
}

impl SchemaLock {
    pub(crate) async fn acquire(
        db: &DatabaseConnection,
        doing: &'static str,
    ) -> Result<Self, SchemaError> {
        let failed = |source| SchemaError::Database { doing, source };
        let options = TransactionOptions {
            // A deferred transaction that has read cannot wait for another writer.
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        let tx = db.begin_with_options(options).await.map_err(failed)?;
        let locked = match db.get_database_backend() {
            DbBackend::Postgres => tx
                .execute_unprepared(LOCK_SCHEMA_POSTGRES)
                .await
                .map(|_| true),
            DbBackend::MySql => lock_mysql(&tx).await,
            _ => Ok(true),
        };
        if locked.map_err(failed)? {
            Ok(Self { tx, doing })
        } else {
            Err(SchemaError::Locked {
                seconds: WAIT_SECONDS,
            })
        }
    }

    pub(crate) fn connection(&self) -> &DatabaseTransaction {
        &self.tx
    }

    /// Commits what was done if it succeeded, and lets the next process in.
    pub(crate) async fn release(self, worked: Result<(), DbErr>) -> Result<(), SchemaError> {
        let Self { tx, doing } = self;
        let unlocked = match tx.get_database_backend() {
            DbBackend::MySql => tx.execute_unprepared(UNLOCK_SCHEMA_MYSQL).await.map(drop),
            _ => Ok(()),
        };
        let done = match worked.and(unlocked) {
            Ok(()) => tx.commit().await,
            Err(error) => Err(error),
        };
        done.map_err(|source| SchemaError::Database { doing, source })
    }
}

async fn lock_mysql(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    let sql = LOCK_SCHEMA_MYSQL.replace("{seconds}", &WAIT_SECONDS.to_string());
    let row = tx
        .query_one_raw(Statement::from_string(DbBackend::MySql, sql))
        .await?;
    let got: Option<i64> = row.map(|row| row.try_get_by_index(0)).transpose()?;
    Ok(got == Some(1))
}
