//! How transactions begin and end.

use crate::database::statement::run_unprepared;
use crate::database::transaction::{END_NESTED, ROLL_BACK_AND_CHAIN};
use sea_orm::{DatabaseTransaction, DbErr, IsolationLevel, TransactionOptions};
use std::time::Duration;

pub(in crate::database) const CLAIMS_ON_HANDLERS_CONNECTION: bool = true;

/// It waits long for the statement of a handler that was dropped. If that is dropped while the server
/// prepares it, its connection answers nothing any more, and the pool never gets it back.
pub(in crate::database) const ABORT: (&str, Duration) =
    (ROLL_BACK_AND_CHAIN, Duration::from_secs(10));

pub(in crate::database) fn own() -> TransactionOptions {
    TransactionOptions {
        isolation_level: Some(IsolationLevel::ReadCommitted),
        ..TransactionOptions::default()
    }
}

pub(in crate::database) fn handlers() -> TransactionOptions {
    TransactionOptions::default()
}

/// A handler cannot change what is handed on here.
pub(in crate::database) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    run_unprepared(&tx, "COMMIT AND CHAIN").await?;
    Ok(tx)
}

pub(in crate::database) async fn begin_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    run_unprepared(tx, "SAVEPOINT outbox_span").await
}

pub(in crate::database) async fn end_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    run_unprepared(tx, "RELEASE SAVEPOINT outbox_span").await
}

/// The statement is refused inside a transaction and harmless outside of one. It does not touch the
/// savepoints.
pub(in crate::database) async fn is_over(tx: &DatabaseTransaction) -> bool {
    run_unprepared(tx, "SET TRANSACTION READ WRITE")
        .await
        .is_ok()
}

pub(in crate::database) async fn has_nested(tx: &DatabaseTransaction) -> bool {
    run_unprepared(tx, END_NESTED).await.is_ok()
}
