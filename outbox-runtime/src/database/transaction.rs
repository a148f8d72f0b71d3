//! Transactions: of our own, and of handlers.
//!
//! sqlx counts how deep transactions are nested. The statements here end a transaction and begin the
//! next in one go, so that its count stays right.

use super::contract;
use super::statement::run_unprepared;
use sea_orm::{
    DatabaseConnection, DatabaseTransaction, DbErr, TransactionOptions, TransactionTrait,
};
use std::time::Duration;

/// Begins a transaction of our own that writes. READ COMMITTED, whatever the database's default:
/// what follows a lock must see what came before it, and on MySQL gap locks would deadlock. On SQLite
/// it begins as the writer, because a reader that wants to become one cannot wait.
pub(crate) async fn begin(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    db.begin_with_options(contract::own_transaction(db)?).await
}

/// How the transaction of a handler begins: with the database's own isolation, which the user
/// chose; on SQLite as the writer it will be.
pub(crate) fn handler_options(db: &DatabaseConnection) -> Result<TransactionOptions, DbErr> {
    contract::handler_transaction(db)
}

/// Begins a transaction of handlers.
pub(crate) async fn begin_for_handlers(
    db: &DatabaseConnection,
) -> Result<DatabaseTransaction, DbErr> {
    db.begin_with_options(handler_options(db)?).await
}

/// Whether a transactional claim is made on the connection of its handlers, which is taken first.
/// Not on SQLite: there the connection is the only writer from the claim on, and the others wait in
/// pauses of up to 100 ms (measured: half the throughput).
pub(crate) fn claims_on_handlers_connection(db: &DatabaseConnection) -> Result<bool, DbErr> {
    contract::claims_on_handlers_connection(db)
}

/// Commits, and begins the next transaction of handlers on the same connection.
pub(crate) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    contract::commit_and_begin(tx).await
}

/// Before the first handler, where an engine ends a transaction by itself: see
/// [`end_span`].
pub(crate) async fn begin_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    contract::begin_span(tx).await
}

/// After the last handler: an error if the engine has ended the transaction meanwhile. On MySQL a
/// deadlock does. What follows would then commit by itself.
pub(crate) async fn end_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    contract::end_span(tx).await
}

/// Whether the engine has ended the transaction by itself, as only MySQL does.
pub(crate) async fn is_over(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    contract::is_over(tx).await
}

/// Whether a handler left a nested transaction open. On PostgreSQL the claim that follows tells
/// (`Claimed::outermost`): a refused statement would end the transaction there.
pub(crate) async fn has_nested(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    contract::has_nested(tx).await
}

/// Ends what a handler has begun, once its statement is over. While a nested transaction is kept by
/// a handler, sqlx would only roll back to its savepoint, and what is before it could be committed
/// later.
pub(crate) async fn abort(tx: &DatabaseTransaction) {
    let (text, patience) = match contract::abort(tx) {
        Ok(abort) => abort,
        Err(error) => return tracing::debug!(%error, "rolling back"),
    };
    if let Ok(Err(error)) = tokio::time::timeout(patience, run_unprepared(tx, text)).await {
        tracing::debug!(%error, "rolling back");
    }
}

/// A rollback that fails, or that waits behind a statement of a handler that was dropped, is left to
/// the connection: it comes before its next use or its end.
pub(crate) async fn roll_back(tx: DatabaseTransaction) {
    abort(&tx).await;
    match tokio::time::timeout(Duration::from_secs(1), tx.rollback()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "rolling back"),
        Err(_) => tracing::debug!("rolling back takes long"),
    }
}

/// Gives a connection back on which no handler ran.
pub(crate) async fn release(tx: DatabaseTransaction) {
    if let Err(error) = tx.rollback().await {
        tracing::debug!(%error, "rolling back");
    }
}

/// What sqlx calls the savepoint of a nested transaction.
pub(super) const END_NESTED: &str = "RELEASE SAVEPOINT _sqlx_savepoint_1";

/// Ends the transaction whatever is nested in it, and begins another, which is the one that sqlx
/// then rolls back.
pub(super) const ROLL_BACK_AND_CHAIN: &str = "ROLLBACK AND CHAIN";
