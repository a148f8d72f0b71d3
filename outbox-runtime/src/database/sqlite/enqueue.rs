//! Writing messages: bodies, then their incoming rows.

use crate::database::Engine;
use crate::database::enqueue::{self, ChunkLimit, NewRow};
use crate::database::statement::{Run, statements, values};
use crate::database::stepwise;
use crate::queue::{QueueId, Slot};
use sea_orm::{ConnectionTrait, DbErr};

statements! { SQLITE;
    INSERT_BODIES = file "insert_bodies.sql";
    INSERT_INCOMING = file "insert_incoming.sql";
}

/// Well below 32,766 parameters.
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
    let ids = insert_bodies(conn, queue_id, vec![row]).await?;
    stepwise::enqueue::insert_incoming(conn, queue_id, ids[0], slot).await?;
    Ok(ids[0])
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

async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let values = stepwise::enqueue::body_values(queue_id, rows);
    let insert = INSERT_BODIES.bind_rows(Engine::Sqlite, count, values);
    let inserted = conn.query_all_raw(insert).await?;
    let ids = inserted
        .iter()
        .map(|row| row.try_get_by("id"))
        .collect::<Result<_, DbErr>>()?;
    enqueue::in_the_order_of_the_list(ids, count)
}
