//! How transactions begin and end.

use crate::database::statement::run_unprepared;
use crate::database::transaction::ROLL_BACK_AND_CHAIN;
use sea_orm::{DatabaseTransaction, DbErr, IsolationLevel, TransactionOptions};
use std::time::Duration;

pub(in crate::database) const CLAIMS_ON_HANDLERS_CONNECTION: bool = true;

pub(in crate::database) const ABORT: (&str, Duration) =
    (ROLL_BACK_AND_CHAIN, Duration::from_secs(1));

pub(in crate::database) fn own() -> TransactionOptions {
    TransactionOptions {
        isolation_level: Some(IsolationLevel::ReadCommitted),
        ..TransactionOptions::default()
    }
}

pub(in crate::database) fn handlers() -> TransactionOptions {
    TransactionOptions::default()
}

/// AND CHAIN would hand on an isolation that a handler has set.
pub(in crate::database) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    run_unprepared(&tx, "COMMIT; BEGIN").await?;
    Ok(tx)
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

pub(in crate::database) async fn has_nested(_: &DatabaseTransaction) -> bool {
    false
}
