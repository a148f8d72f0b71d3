//! How transactions begin and end.

use crate::database::statement::run_unprepared;
use crate::database::transaction::{END_NESTED, release};
use sea_orm::{DatabaseTransaction, DbErr, SqliteTransactionMode, TransactionOptions};
use std::time::Duration;

pub(in crate::database) const CLAIMS_ON_HANDLERS_CONNECTION: bool = false;

pub(in crate::database) const ABORT: (&str, Duration) =
    (include_str!("abort.sql"), Duration::from_secs(1));

pub(in crate::database) fn own() -> TransactionOptions {
    TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    }
}

pub(in crate::database) fn handlers() -> TransactionOptions {
    own()
}

pub(in crate::database) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    match run_unprepared(&tx, "COMMIT; BEGIN IMMEDIATE").await {
        Ok(()) => Ok(tx),
        Err(error) => {
            // sqlx would fail to roll back what has not begun, and count it for ever.
            let _ = run_unprepared(&tx, "BEGIN").await;
            release(tx).await;
            Err(error)
        }
    }
}

pub(in crate::database) async fn begin_span(_: &DatabaseTransaction) -> Result<(), DbErr> {
    Ok(())
}

pub(in crate::database) async fn end_span(_: &DatabaseTransaction) -> Result<(), DbErr> {
    Ok(())
}

pub(in crate::database) async fn is_over(_: &DatabaseTransaction) -> bool {
    false
}

pub(in crate::database) async fn has_nested(tx: &DatabaseTransaction) -> bool {
    run_unprepared(tx, END_NESTED).await.is_ok()
}
