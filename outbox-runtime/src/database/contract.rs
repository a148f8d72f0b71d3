//! The contract: what every engine must be able to do. Each function here calls the one of the same
//! name in the folder of the engine. A folder also has `WORDS` and `errors::class`.
//!
//! To add an engine:
//! - write a folder like the others, and add an arm to the macro `on` below;
//! - name it in `engine.rs`, `words.rs`, `errors.rs`, in `statement/` (which engines, which
//!   placeholders) and in `statements.rs`, which lists its statements;
//! - write its tables in `migrations`, and give it a Cargo feature;
//! - let the tests' `Engine` know it: they run on every engine.

use super::connection_cache::ConnectionCache;
use super::cursor::{ClaimRequest, Claimed, QuickClaim};
use super::enqueue::NewRow;
use super::orphan_bodies::Orphans;
use super::registration::Present;
use super::sequence::{PartitionRows, SequenceRequest, Sequenced};
use super::vacuum::{VacuumRequest, Vacuumed};
use super::{Engine, mysql, postgres, sqlite};
use crate::queue::QueueId;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, QueryResult, StreamTrait,
    TransactionOptions,
};
use std::time::Duration;

/// What stands behind the colon, with `engine` being the folder of the engine of a connection.
macro_rules! on {
    ($conn:expr, $engine:ident => $($do:tt)*) => {
        match Engine::of($conn)? {
            Engine::Postgres => { use postgres as $engine; $($do)* }
            Engine::MySql => { use mysql as $engine; $($do)* }
            Engine::Sqlite => { use sqlite as $engine; $($do)* }
        }
    };
}

/// Writes a body and its incoming row; returns the id.
pub(super) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    on!(conn, engine => engine::enqueue::insert_message(conn, queue, row).await)
}

/// Writes bodies and incoming rows; returns the ids in order. All incoming rows are one statement, so
/// that an error on a bare connection never leaves half of a list.
pub(super) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    on!(conn, engine => engine::enqueue::insert_messages(conn, queue, rows).await)
}

/// Acknowledges, claims and reads.
pub(super) async fn claim<C: ConnectionTrait + StreamTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    on!(conn, engine => engine::claim::claim(conn, request).await)
}

/// Whether the engine can claim for many cursors in one statement.
pub(super) fn can_claim_together(db: &DatabaseConnection) -> Result<bool, DbErr> {
    Ok(on!(db, engine => engine::claim::CAN_CLAIM_TOGETHER))
}

/// Claims for many cursors in one statement; `None` where it was not the usual case.
pub(super) async fn claim_together(
    connections: &ConnectionCache,
    requests: &[QuickClaim],
    owner: &str,
    asynchronous_commit: bool,
) -> Result<Vec<Option<Claimed>>, DbErr> {
    on!(connections, engine => {
        engine::claim::claim_together(connections, requests, owner, asynchronous_commit).await
    })
}

/// Numbers committed rows of a queue.
pub(super) async fn sequence(
    connections: &ConnectionCache,
    request: &SequenceRequest,
    partition_rows: &mut PartitionRows,
) -> Result<Sequenced, DbErr> {
    on!(connections, engine => engine::sequence::sequence(connections, request, partition_rows).await)
}

/// Deletes what every consumer has passed.
pub(super) async fn vacuum(
    connections: &ConnectionCache,
    request: &VacuumRequest<'_>,
) -> Result<Vec<Vacuumed>, DbErr> {
    on!(connections, engine => engine::vacuum::vacuum(connections, request).await)
}

/// Finds what waits, and says which consumers a process is there for.
pub(super) async fn waiting(
    db: &DatabaseConnection,
    queues: &[QueueId],
    owner: &str,
    thorough: bool,
    present: &[Present],
) -> Result<Vec<QueryResult>, DbErr> {
    on!(db, engine => engine::reconcile::waiting(db, queues, owner, thorough, present).await)
}

/// Whether there may be bodies that nobody refers to.
pub(super) fn may_have_orphans(db: &DatabaseConnection) -> Result<bool, DbErr> {
    Ok(on!(db, engine => engine::orphan_bodies::MAY_EXIST))
}

/// Deletes bodies that nobody refers to, beyond an id.
pub(super) async fn delete_orphans(db: &DatabaseConnection, after: i64) -> Result<Orphans, DbErr> {
    on!(db, engine => engine::orphan_bodies::delete(db, after).await)
}

/// How a transaction of our own that writes begins.
pub(super) fn own_transaction(db: &DatabaseConnection) -> Result<TransactionOptions, DbErr> {
    Ok(on!(db, engine => engine::transaction::own()))
}

/// How the transaction of a handler begins.
pub(super) fn handler_transaction(db: &DatabaseConnection) -> Result<TransactionOptions, DbErr> {
    Ok(on!(db, engine => engine::transaction::handlers()))
}

/// Whether a transactional claim is made on the connection of its handlers.
pub(super) fn claims_on_handlers_connection(db: &DatabaseConnection) -> Result<bool, DbErr> {
    Ok(on!(db, engine => engine::transaction::CLAIMS_ON_HANDLERS_CONNECTION))
}

/// Commits, and begins the next transaction on the same connection.
pub(super) async fn commit_and_begin(
    tx: DatabaseTransaction,
) -> Result<DatabaseTransaction, DbErr> {
    on!(&tx, engine => engine::transaction::commit_and_begin(tx).await)
}

/// Before the first handler of a transaction.
pub(super) async fn begin_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    on!(tx, engine => engine::transaction::begin_span(tx).await)
}

/// After the last handler of a transaction: an error if the engine has ended it meanwhile.
pub(super) async fn end_span(tx: &DatabaseTransaction) -> Result<(), DbErr> {
    on!(tx, engine => engine::transaction::end_span(tx).await)
}

/// Whether the engine has ended a transaction by itself.
pub(super) async fn is_over(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    Ok(on!(tx, engine => engine::transaction::is_over(tx).await))
}

/// Whether a handler left a nested transaction open.
pub(super) async fn has_nested(tx: &DatabaseTransaction) -> Result<bool, DbErr> {
    Ok(on!(tx, engine => engine::transaction::has_nested(tx).await))
}

/// What ends a transaction and all that is nested in it, and how long that is waited for.
pub(super) fn abort(tx: &DatabaseTransaction) -> Result<(&'static str, Duration), DbErr> {
    Ok(on!(tx, engine => engine::transaction::ABORT))
}

/// Whether the engine has notifications.
pub(super) fn can_notify(db: &DatabaseConnection) -> Result<bool, DbErr> {
    Ok(on!(db, engine => engine::notify::CAN_NOTIFY))
}

/// Tells other processes that something was enqueued.
pub(super) async fn notify(db: &DatabaseConnection, queues: &[QueueId]) -> Result<(), DbErr> {
    on!(db, engine => engine::notify::notify(db, queues).await)
}

/// What should be different about the database.
pub(super) async fn setup_advice(db: &DatabaseConnection) -> Result<Vec<&'static str>, DbErr> {
    Ok(on!(db, engine => engine::setup::advice(db).await))
}
