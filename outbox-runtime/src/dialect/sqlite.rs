//! SQLite 3.42 or later (sea-orm brings its own).

use super::{ByKeys, Words};
use crate::store::incoming::{ChunkLimit, NewRow};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};

pub(super) const WORDS: Words = Words {
    now: "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
    later: ("(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ", ")"),
    micros: ("(", ")"),
    key: "key",
    partition: "partition",
    // There is one writer, and our transactions begin as it.
    for_update: "",
    skip_locked: "",
    unreferenced: "b.id NOT IN (SELECT id FROM outbox_incoming) \
        AND b.id NOT IN (SELECT id FROM outbox_outgoing)",
    or_ignore: "ON CONFLICT DO NOTHING",
};

pub(crate) const BY_KEYS: ByKeys = ByKeys {
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
    INSERT INTO outbox_body (event_type, key, payload, headers, enqueued_at) VALUES ";
const BODY_VALUES: &str = "(?, ?, ?, ?, CAST(unixepoch('subsec') * 1000000 AS INTEGER))";
const RETURNING_ID: &str = " RETURNING id";

const INSERT_ONE_INCOMING: &str = "\
    INSERT INTO outbox_incoming (queue_id, id, partition_id) VALUES (?, ?, ?)";

/// The text is the same for any number of rows.
const INSERT_INCOMING: &str = "\
    INSERT INTO outbox_incoming (queue_id, id, partition_id) \
    SELECT ?, value ->> 0, value ->> 1 FROM json_each(?)";

pub(super) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    row: NewRow,
) -> Result<i64, DbErr> {
    let partition_id = row.partition_id;
    let id = insert_bodies(conn, vec![row]).await?[0];
    let values = [queue_id.into(), id.into(), partition_id.into()];
    conn.execute_raw(statement(INSERT_ONE_INCOMING, values))
        .await?;
    Ok(id)
}

pub(super) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let partition_ids: Vec<i64> = rows.iter().map(|row| row.partition_id).collect();
    let ids = insert_bodies(conn, rows).await?;
    insert_incoming(conn, queue_id, &ids, &partition_ids).await?;
    Ok(ids)
}

pub(super) async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let sql = super::values_list(INSERT_BODY, BODY_VALUES, count) + RETURNING_ID;
    let inserted = conn.query_all_raw(statement(&sql, super::body_values(rows)));
    super::returned_ids(&inserted.await?, count)
}

pub(super) async fn insert_incoming<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    ids: &[i64],
    partition_ids: &[i64],
) -> Result<(), DbErr> {
    let values = [
        queue_id.into(),
        super::json_pairs(ids, partition_ids).into(),
    ];
    conn.execute_raw(statement(INSERT_INCOMING, values)).await?;
    Ok(())
}

fn statement(sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
}
