//! PostgreSQL 13 or later.

use super::Words;
use crate::database::incoming::{ChunkLimit, NewRow};
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};

pub(super) const WORDS: Words = Words {
    // now() is the time of BEGIN: leases and due times need the real one.
    now: "clock_timestamp()",
    later: ("(clock_timestamp() + ", " * interval '1 microsecond')"),
    earlier: (" - ", " * interval '1 microsecond'"),
    micros: ("(extract(epoch FROM ", ") * 1000000)::bigint"),
    key: "key",
    partition: "partition",
    for_update: "FOR NO KEY UPDATE",
    skip_locked: "FOR NO KEY UPDATE SKIP LOCKED",
    or_ignore: "ON CONFLICT DO NOTHING",
    or_update: "ON CONFLICT (@) DO UPDATE SET",
    // From the mark on, and by the index: see SEQUENCE.
    unsequenced: "(SELECT i.id FROM outbox_incoming i \
        WHERE (i.queue_id, i.id) > (q.id, q.low_id) \
            AND (i.queue_id, i.id) <= (q.id, 9223372036854775807) \
            AND i.slot < 16384 + q.partitions \
        ORDER BY i.queue_id, i.id LIMIT 1) IS NOT NULL",
    below_mark: "(SELECT i.id FROM outbox_incoming i \
        WHERE (i.queue_id, i.id) >= (q.id, 0) AND (i.queue_id, i.id) <= (q.id, q.low_id) \
            AND i.slot < 16384 + q.partitions \
        ORDER BY i.queue_id, i.id LIMIT 1) IS NOT NULL",
    with_seen: "WITH s AS (UPDATE outbox_consumer c SET seen_at = clock_timestamp() \
        FROM unnest(?::bigint[], ?::text[], ?::text[]) AS m (queue_id, name, event_types) \
        WHERE c.queue_id = m.queue_id AND c.name = m.name AND c.event_types = m.event_types) ",
};

/// The protocol carries a gigabyte; memory on both sides should not have to.
pub(super) const CHUNK_LIMIT: ChunkLimit = ChunkLimit {
    rows: usize::MAX,
    bytes: 256 << 20,
};

/// `x` gives the transaction its id before a body id is drawn, which lets the
/// sequencer prove that no lower id can still appear. The filter on `x.ok` is
/// what makes it run first.
const INSERT_MESSAGE: &str = "\
    WITH x AS MATERIALIZED (SELECT pg_current_xact_id() IS NOT NULL AS ok), \
    b AS ( \
        INSERT INTO outbox_body (queue_id, slot, nonce, event_type, key, payload, headers, \
            target, enqueued_at) \
        SELECT $1, $2, $3, $4, $5, $6, COALESCE($7, ''), COALESCE($8, ''), clock_timestamp() \
        FROM x WHERE x.ok \
        RETURNING id \
    ) \
    INSERT INTO outbox_incoming (queue_id, id, slot) \
    SELECT $1, b.id, $2 FROM b \
    RETURNING id";

/// The same for arrays: the text does not change with the number of rows. ORDER
/// BY gives ids in the order of the list. Where all events are of one type that
/// is given once, and where none has headers none are given: `unnest` fills shorter arrays
/// up with nulls. The ids come back as one row, which costs the client less than many.
const INSERT_MESSAGES: &str = "\
    WITH x AS MATERIALIZED (SELECT pg_current_xact_id() IS NOT NULL AS ok), \
    b AS ( \
        INSERT INTO outbox_body (queue_id, slot, nonce, event_type, key, payload, headers, \
            enqueued_at) \
        SELECT $1, m.slot, m.nonce, COALESCE(m.event_type, ($4::text[])[1]), m.key, \
            m.payload, COALESCE(m.headers, ''), clock_timestamp() \
        FROM x, unnest($2::smallint[], $3::bigint[], $4::text[], $5::bytea[], $6::bytea[], \
                $7::text[]) WITH ORDINALITY \
            AS m (slot, nonce, event_type, key, payload, headers, place) \
        WHERE x.ok ORDER BY m.place \
        RETURNING id, slot \
    ), i AS ( \
        INSERT INTO outbox_incoming (queue_id, id, slot) \
        SELECT $1, b.id, b.slot FROM b \
        RETURNING id \
    ) \
    SELECT array_agg(id) FROM i";

pub(super) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let values = [
        queue_id.into(),
        row.slot.stored().into(),
        row.nonce.into(),
        row.event_type.into_owned().into(),
        row.key.into(),
        row.payload.into(),
        row.headers.into(),
        row.target.into(),
    ];
    conn.query_one_raw(statement(INSERT_MESSAGE, values))
        .await?
        .ok_or(DbErr::RecordNotInserted)?
        .try_get_by_index(0)
}

pub(super) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    let count = rows.len();
    let values = [queue_id.into()].into_iter().chain(columns(rows));
    let inserted = conn.query_one_raw(statement(INSERT_MESSAGES, values));
    let row = inserted.await?.ok_or(DbErr::RecordNotInserted)?;
    super::in_the_order_of_the_list(row.try_get_by_index(0)?, count)
}

/// A list is one statement: were its bodies committed before its incoming rows, as on a
/// bare connection, the transaction that drew the ids would not be the one whose rows the
/// sequencer has to wait for.
pub(super) fn too_large() -> DbErr {
    let most = CHUNK_LIMIT.bytes >> 20;
    DbErr::Custom(format!(
        "a list of more than {most} MiB cannot be enqueued at once: enqueue it in parts"
    ))
}

fn statement(sql: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
}

/// The rows as arrays; in the one of headers an empty text is none, for arrays of NULLs
/// cannot be bound.
fn columns(rows: Vec<NewRow>) -> [Value; 6] {
    let one_type = rows
        .windows(2)
        .all(|two| two[0].event_type == two[1].event_type);
    let no_headers = rows.iter().all(|row| row.headers.is_none());
    let mut slots = Vec::with_capacity(rows.len());
    let mut nonces = Vec::with_capacity(rows.len());
    let mut types: Vec<String> = Vec::new();
    let mut keys = Vec::with_capacity(rows.len());
    let mut payloads = Vec::with_capacity(rows.len());
    let mut headers: Vec<String> = Vec::new();
    for row in rows {
        if types.is_empty() || !one_type {
            types.push(row.event_type.into_owned());
        }
        slots.push(row.slot.stored());
        nonces.push(row.nonce);
        keys.push(row.key);
        payloads.push(row.payload);
        if !no_headers {
            headers.push(row.headers.unwrap_or_default());
        }
    }
    [
        slots.into(),
        nonces.into(),
        types.into(),
        keys.into(),
        payloads.into(),
        headers.into(),
    ]
}
