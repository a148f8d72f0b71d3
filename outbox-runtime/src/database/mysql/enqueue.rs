//! Writing messages: bodies, then their incoming rows.

use crate::database::Engine;
use crate::database::enqueue::{self, ChunkLimit, NewRow};
use crate::database::statement::{Run, statements, values};
use crate::database::stepwise;
use crate::queue::{QueueId, Slot};
use sea_orm::{ConnectionTrait, DbErr};

statements! { MYSQL;
    INSERT_BODIES = file "insert_bodies.sql";
    INSERT_INCOMING = file "insert_incoming.sql";
    /// How far apart the ids of one INSERT are: more than 1 with several writers.
    SELECT_ID_STEP = "SELECT CAST(@@auto_increment_increment AS SIGNED) AS step";
}

/// Well below 65,535 parameters and the smallest default `max_allowed_packet`.
const CHUNK_LIMIT: ChunkLimit = ChunkLimit {
    rows: 1_000,
    bytes: 4 << 20,
};

pub(in crate::database) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let slot = row.slot;
    let id = insert_first(conn, queue_id, vec![row]).await?;
    stepwise::enqueue::insert_incoming(conn, queue_id, id, slot).await?;
    Ok(id)
}

pub(in crate::database) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let slots: Vec<Slot> = rows.iter().map(|row| row.slot).collect();
    let mut ids = Vec::with_capacity(rows.len());
    for chunk in enqueue::into_chunks(rows, &CHUNK_LIMIT) {
        ids.extend(insert_bodies(conn, queue_id, chunk).await?);
    }
    let rows = stepwise::enqueue::json_pairs(&ids, &slots);
    let values = values! { queue: queue_id, rows: rows };
    INSERT_INCOMING.execute(conn, values).await?;
    Ok(ids)
}

/// InnoDB gives the rows of one VALUES list ids at even distances, in order.
async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let first = insert_first(conn, queue_id, rows).await?;
    let step = SELECT_ID_STEP.first(conn, values! {}).await?;
    let step: i64 = step.ok_or(DbErr::UnpackInsertId)?.try_get_by("step")?;
    Ok(
        std::iter::successors(Some(first), |id| id.checked_add(step))
            .take(count)
            .collect(),
    )
}

/// Writes bodies; returns the id of the first. It comes with the answer to the INSERT itself: asking
/// for it afterwards could be answered by another connection of the pool.
async fn insert_first<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<i64, DbErr> {
    let count = rows.len();
    let values = stepwise::enqueue::body_values(queue_id, rows);
    let insert = INSERT_BODIES.bind_rows(Engine::MySql, count, values);
    let done = conn.execute_raw(insert).await?;
    i64::try_from(done.last_insert_id()).map_err(|_| DbErr::UnpackInsertId)
}
