//! The connection on which a transactional consumer works on a partition.
//!
//! On PostgreSQL and MySQL a turn takes it before it claims anything, and keeps it from one
//! batch to the next; on SQLite after the claim. Nothing is charged before it is in hand, so a
//! pool that has none left charges nobody for a handler that never ran. The claim itself runs on
//! this connection, so that a turn never holds one connection while it waits for another.
//!
//! sqlx counts how deep transactions are nested. The statements here end a transaction and
//! begin the next in one go, so that its count stays right.

use super::claim::ClaimAnswer;
use super::consumer::Consumer;
use super::guard::LeaseClock;
use crate::database::cursor::{self, ClaimRequest};
use crate::database::dialect::{Dialect, handler_transaction_options};
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, TransactionTrait};
use std::time::Duration;

/// Refused inside a transaction, harmless outside of one: whether there still is
/// one, on MySQL, without touching its savepoints.
const IS_OVER: &str = "SET TRANSACTION READ WRITE";
/// What sqlx calls the savepoint of a nested transaction.
const END_NESTED: &str = "RELEASE SAVEPOINT _sqlx_savepoint_1";
/// Ends the transaction whatever is nested in it, and begins another, which is
/// the one that sqlx then rolls back.
const ABORT: &str = "ROLLBACK AND CHAIN";
/// With the savepoints that sqlx may believe in, as many as a batch of handlers may
/// have left: here it counts only what succeeds, and would give the pool a connection
/// that is still in a transaction.
const ABORT_SQLITE: &str = "\
    ROLLBACK; BEGIN; \
    SAVEPOINT _sqlx_savepoint_1; SAVEPOINT _sqlx_savepoint_2; \
    SAVEPOINT _sqlx_savepoint_3; SAVEPOINT _sqlx_savepoint_4; \
    SAVEPOINT _sqlx_savepoint_5; SAVEPOINT _sqlx_savepoint_6; \
    SAVEPOINT _sqlx_savepoint_7; SAVEPOINT _sqlx_savepoint_8; \
    SAVEPOINT _sqlx_savepoint_9; SAVEPOINT _sqlx_savepoint_10; \
    SAVEPOINT _sqlx_savepoint_11; SAVEPOINT _sqlx_savepoint_12; \
    SAVEPOINT _sqlx_savepoint_13; SAVEPOINT _sqlx_savepoint_14; \
    SAVEPOINT _sqlx_savepoint_15; SAVEPOINT _sqlx_savepoint_16";

/// Takes a connection, claims on it, and keeps it for the handlers. Not on SQLite:
/// there the connection is the only writer from the claim on, and the
/// others wait in pauses of up to 100 ms (measured: half the throughput).
pub(super) async fn claim(
    consumer: &Consumer,
    request: ClaimRequest<'_>,
) -> Result<ClaimAnswer, DbErr> {
    if is_sqlite(consumer) {
        let clock = LeaseClock::start(consumer.lease);
        let claimed = cursor::claim(&consumer.db, &request).await?;
        let tx = None;
        return Ok(ClaimAnswer { claimed, clock, tx });
    }
    let tx = begin(consumer).await?;
    let clock = LeaseClock::start(consumer.lease);
    let claimed = cursor::claim(&tx, &request).await?;
    let tx = if claimed.rows.is_empty() {
        release(tx).await;
        None
    } else {
        Some(commit_and_begin(tx).await?)
    };
    Ok(ClaimAnswer { claimed, clock, tx })
}

pub(super) fn is_sqlite(consumer: &Consumer) -> bool {
    Dialect::of(&consumer.db).is_ok_and(|dialect| dialect == Dialect::Sqlite)
}

/// Takes a connection and begins a transaction of handlers.
pub(super) async fn begin(consumer: &Consumer) -> Result<DatabaseTransaction, DbErr> {
    let options = handler_transaction_options(Dialect::of(&consumer.db)?);
    consumer.db.begin_with_options(options).await
}

/// Commits, and begins the next transaction of handlers on the same connection.
pub(super) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    let commit_and_begin = match tx.get_database_backend() {
        // In MySQL a handler cannot change what is handed on.
        DbBackend::MySql => "COMMIT AND CHAIN",
        DbBackend::Sqlite => "COMMIT; BEGIN IMMEDIATE",
        // AND CHAIN would hand on an isolation that a handler has set.
        _ => "COMMIT; BEGIN",
    };
    match tx.execute_unprepared(commit_and_begin).await {
        Ok(_) => Ok(tx),
        Err(error) => {
            if tx.get_database_backend() == DbBackend::Sqlite {
                // sqlx would fail to roll back what has not begun, and count it for ever.
                let _ = tx.execute_unprepared("BEGIN").await;
                release(tx).await;
            }
            Err(error)
        }
    }
}

/// Whether a handler left a nested transaction open. Only for engines whose transaction
/// survives a statement that is refused.
pub(super) async fn has_nested(tx: &DatabaseTransaction) -> bool {
    tx.execute_unprepared(END_NESTED).await.is_ok()
}

/// Whether the server has ended the transaction by itself, as only MySQL does.
pub(super) async fn is_over(tx: &DatabaseTransaction) -> bool {
    tx.get_database_backend() == DbBackend::MySql && tx.execute_unprepared(IS_OVER).await.is_ok()
}

/// A rollback that fails, or that waits behind a statement of a handler that was
/// dropped, is left to the connection: it comes before its next use or its end.
pub(super) async fn roll_back(tx: DatabaseTransaction) {
    abort(&tx).await;
    match tokio::time::timeout(Duration::from_secs(1), tx.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "rolling back"),
        Err(_) => tracing::debug!("rolling back takes long"),
    }
}

/// Gives a connection back on which no handler ran.
pub(super) async fn release(tx: DatabaseTransaction) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!(%error, "rolling back");
    }
}

/// Ends what a handler has begun, once its statement is over. While a nested transaction is
/// kept by a handler, sqlx would only roll back to its savepoint, and what is before it
/// could be committed later.
///
/// On MySQL it waits long for the statement: one that is dropped while the server prepares
/// it leaves a connection that answers nothing any more and that the pool never gets back.
pub(super) async fn abort(tx: &DatabaseTransaction) {
    let (abort, patience) = match tx.get_database_backend() {
        DbBackend::MySql => (ABORT, Duration::from_secs(10)),
        DbBackend::Sqlite => (ABORT_SQLITE, Duration::from_secs(1)),
        _ => (ABORT, Duration::from_secs(1)),
    };
    if let Ok(Err(error)) = tokio::time::timeout(patience, tx.execute_unprepared(abort)).await {
        tracing::debug!(%error, "rolling back");
    }
}
