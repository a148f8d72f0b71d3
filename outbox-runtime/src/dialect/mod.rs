//! The only place that knows a database engine.
//!
//! Each engine has a file with the same functions and constants in the same
//! order; this one picks the file.

mod mysql;
mod postgres;
mod sqlite;

use crate::store::incoming::{ChunkLimit, NewRow};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Value};

/// Calls the same function of the connection's engine.
macro_rules! dispatch {
    ($conn:expr, $engine:ident => $call:expr) => {
        match $conn.get_database_backend() {
            DbBackend::Postgres => {
                use postgres as $engine;
                $call
            }
            DbBackend::MySql => {
                use mysql as $engine;
                $call
            }
            DbBackend::Sqlite => {
                use sqlite as $engine;
                $call
            }
            other => Err(DbErr::BackendNotSupported {
                db: other.as_str(),
                ctx: "the outbox",
            }),
        }
    };
}

/// How much one statement that writes bodies may carry.
pub(crate) fn chunk_limit<C: ConnectionTrait>(conn: &C) -> Result<ChunkLimit, DbErr> {
    dispatch!(conn, engine => Ok(engine::CHUNK_LIMIT))
}

/// Writes a body and its incoming row; returns the id.
pub(crate) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    row: NewRow,
) -> Result<i64, DbErr> {
    dispatch!(conn, engine => engine::insert_message(conn, queue_id, row).await)
}

/// Writes bodies and incoming rows of one chunk; returns the ids in order.
pub(crate) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    dispatch!(conn, engine => engine::insert_messages(conn, queue_id, rows).await)
}

/// Writes the bodies of one chunk; returns the ids in order.
pub(crate) async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    dispatch!(conn, engine => engine::insert_bodies(conn, rows).await)
}

/// Writes the incoming rows of bodies, in one statement however many there are.
pub(crate) async fn insert_incoming<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    ids: &[i64],
    partition_ids: &[i64],
) -> Result<(), DbErr> {
    dispatch!(conn, engine => engine::insert_incoming(conn, queue_id, ids, partition_ids).await)
}

/// `insert` followed by `count` times `values`, with commas between.
fn values_list(insert: &str, values: &str, count: usize) -> String {
    let mut sql = String::with_capacity(insert.len() + count * (values.len() + 1) + 16);
    sql.push_str(insert);
    for i in 0..count {
        if i > 0 {
            sql.push(',');
        }
        sql.push_str(values);
    }
    sql
}

/// The four values of each row, in the order of the columns.
fn body_values(rows: Vec<NewRow>) -> impl Iterator<Item = Value> {
    rows.into_iter().flat_map(|row| {
        [
            row.event_type.into_owned().into(),
            row.key.into(),
            row.payload.into(),
            row.headers.into(),
        ]
    })
}

/// `[[id,partition_id],...]`: numbers only, so this is JSON.
fn json_pairs(ids: &[i64], partition_ids: &[i64]) -> String {
    let pairs: Vec<String> = ids
        .iter()
        .zip(partition_ids)
        .map(|(id, partition_id)| format!("[{id},{partition_id}]"))
        .collect();
    format!("[{}]", pairs.join(","))
}

/// The ids a statement returned. They were drawn in the order of the list, so
/// sorted they are in that order, in whatever order the rows came back.
fn returned_ids(rows: &[QueryResult], count: usize) -> Result<Vec<i64>, DbErr> {
    let ids: Result<Vec<i64>, DbErr> = rows.iter().map(|row| row.try_get_by_index(0)).collect();
    let mut ids = ids?;
    if ids.len() != count {
        return Err(DbErr::RecordNotInserted);
    }
    ids.sort_unstable();
    Ok(ids)
}
