//! MySQL 8.0 or later and MariaDB 10.6 or later: only what is valid on both.

use super::{ByKeys, Words};
use crate::database::incoming::{ChunkLimit, NewRow};
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};

pub(super) const WORDS: Words = Words {
    now: "UTC_TIMESTAMP(6)",
    later: ("(UTC_TIMESTAMP(6) + INTERVAL ", " MICROSECOND)"),
    earlier: (" - INTERVAL ", " MICROSECOND"),
    micros: ("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ", ")"),
    key: "`key`",
    partition: "`partition`",
    for_update: "FOR UPDATE",
    skip_locked: "FOR UPDATE SKIP LOCKED",
    or_ignore: "ON DUPLICATE KEY UPDATE @ = @",
    or_update: "ON DUPLICATE KEY UPDATE",
    unsequenced: "EXISTS (SELECT 1 FROM outbox_incoming i WHERE i.queue_id = q.id \
        AND i.slot < 16384 + q.partitions)",
    // There is no mark.
    below_mark: "1 = 0",
    with_seen: "",
};

/// Joined in this order and by this index, whatever the statistics say: a scan
/// would wait for rows that are inserted and not yet committed.
pub(crate) const BY_KEYS: ByKeys = ByKeys {
    // The outer join is a check: an id without a body becomes NULL, which the column
    // refuses, and the whole statement fails.
    insert_incoming: "INSERT INTO outbox_incoming (queue_id, id, slot) \
        SELECT ?, b.id, k.slot FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
            id BIGINT PATH '$[0]', slot SMALLINT PATH '$[1]' \
        )) AS k LEFT JOIN outbox_body b ON b.id = k.id",
    insert_outgoing: "INSERT INTO outbox_outgoing (partition_id, seq, id) \
        SELECT k.partition_id, k.seq, k.id FROM JSON_TABLE(?, '$[*]' COLUMNS ( \
            partition_id BIGINT PATH '$[0]', seq BIGINT PATH '$[1]', id BIGINT PATH '$[2]' \
        )) AS k",
    advance_partitions: "UPDATE JSON_TABLE(?, '$[*]' COLUMNS ( \
            id BIGINT PATH '$[0]', sequence BIGINT PATH '$[1]' \
        )) AS k STRAIGHT_JOIN outbox_partition p FORCE INDEX (PRIMARY) ON p.id = k.id \
        SET p.sequence = k.sequence",
    delete_incoming: "DELETE i FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS k \
        STRAIGHT_JOIN outbox_incoming i FORCE INDEX (PRIMARY) ON i.queue_id = ? AND i.id = k.id",
    delete_outgoing: "DELETE o FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT PATH '$')) AS k \
        STRAIGHT_JOIN outbox_outgoing o FORCE INDEX (PRIMARY) ON o.partition_id = ? AND o.seq = k.seq",
    delete_bodies: "DELETE b FROM JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS k \
        STRAIGHT_JOIN outbox_body b FORCE INDEX (PRIMARY) ON b.id = k.id",
};

/// Well below 65,535 parameters and the smallest default `max_allowed_packet`.
pub(super) const CHUNK_LIMIT: ChunkLimit = ChunkLimit {
    rows: 1_000,
    bytes: 4 << 20,
};

const INSERT_BODY: &str = "\
    INSERT INTO outbox_body \
    (queue_id, slot, nonce, event_type, `key`, payload, headers, target, enqueued_at) VALUES ";
const BODY_VALUES: &str = "(?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))";

/// How far apart the ids of one INSERT are: more than 1 with several writers.
const SELECT_ID_STEP: &str = "SELECT CAST(@@auto_increment_increment AS SIGNED)";

/// The id comes with the answer to the INSERT itself: asking for it afterwards
/// could be answered by another connection of the pool.
pub(super) async fn insert_body<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    insert_first(conn, queue_id, vec![row]).await
}

/// InnoDB gives the rows of one VALUES list ids at even distances, in order.
pub(super) async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let first = insert_first(conn, queue_id, rows).await?;
    let step: i64 = conn
        .query_one_raw(statement(SELECT_ID_STEP, []))
        .await?
        .ok_or(DbErr::UnpackInsertId)?
        .try_get_by_index(0)?;
    Ok(
        std::iter::successors(Some(first), |id| id.checked_add(step))
            .take(count)
            .collect(),
    )
}

/// Writes bodies; returns the id of the first.
async fn insert_first<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<i64, DbErr> {
    let sql = super::values_list(INSERT_BODY, BODY_VALUES, rows.len());
    let done = conn
        .execute_raw(statement(&sql, super::body_values(queue_id, rows)))
        .await?;
    i64::try_from(done.last_insert_id()).map_err(|_| DbErr::UnpackInsertId)
}

fn statement(sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::MySql, sql, values)
}
