//! SQLite 3.42 or later (sea-orm brings its own).

use super::{ByKeys, Words};
use crate::database::incoming::{ChunkLimit, NewRow};
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};

pub(super) const WORDS: Words = Words {
    now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    later: ("(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ", ")"),
    earlier: (" - ", ""),
    micros: ("(", ")"),
    key: "key",
    partition: "partition",
    // There is one writer, and our transactions begin as it.
    for_update: "",
    skip_locked: "",
    or_ignore: "ON CONFLICT DO NOTHING",
    or_update: "ON CONFLICT (@) DO UPDATE SET",
    unsequenced: "EXISTS (SELECT 1 FROM outbox_incoming i WHERE i.queue_id = q.id \
        AND i.slot < 16384 + q.partitions)",
    // There is no mark.
    below_mark: "1 = 0",
    with_seen: "",
};

pub(crate) const BY_KEYS: ByKeys = ByKeys {
    insert_incoming: "INSERT INTO outbox_incoming (queue_id, id, slot) \
        SELECT ?, value ->> 0, value ->> 1 FROM json_each(?)",
    insert_outgoing: "INSERT INTO outbox_outgoing (partition_id, seq, id) \
        SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
    advance_partitions: "UPDATE outbox_partition SET sequence = k.value ->> 1 \
        FROM json_each(?) AS k WHERE outbox_partition.id = k.value ->> 0",
    delete_incoming: "DELETE FROM outbox_incoming \
        WHERE id IN (SELECT value FROM json_each(?)) AND queue_id = ?",
    delete_outgoing: "DELETE FROM outbox_outgoing \
        WHERE seq IN (SELECT value FROM json_each(?)) AND partition_id = ?",
    delete_bodies: "DELETE FROM outbox_body WHERE id IN (SELECT value FROM json_each(?))",
};

/// Well below 32,766 parameters.
pub(super) const CHUNK_LIMIT: ChunkLimit = ChunkLimit {
    rows: 1_000,
    bytes: 4 << 20,
};

const INSERT_BODY: &str = "\
    INSERT INTO outbox_body \
    (queue_id, slot, nonce, event_type, key, payload, headers, target, enqueued_at) VALUES ";
const BODY_VALUES: &str = "(?, ?, ?, ?, ?, ?, ?, ?, \
    CAST(unixepoch('subsec') * 1000000 AS INTEGER))";
const RETURNING_ID: &str = " RETURNING id";

pub(super) async fn insert_body<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let ids = insert_bodies(conn, queue_id, vec![row]).await?;
    Ok(ids[0])
}

pub(super) async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let sql = super::values_list(INSERT_BODY, BODY_VALUES, count) + RETURNING_ID;
    let inserted = conn.query_all_raw(statement(&sql, super::body_values(queue_id, rows)));
    let ids = inserted
        .await?
        .iter()
        .map(|row| row.try_get_by_index(0))
        .collect::<Result<_, DbErr>>()?;
    super::in_the_order_of_the_list(ids, count)
}

fn statement(sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
}
