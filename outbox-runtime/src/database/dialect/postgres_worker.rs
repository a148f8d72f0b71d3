//! PostgreSQL's one-statement forms of sequencing and cleaning up.

use crate::database::cleanup::Vacuumed;
use crate::database::sequencing::{Places, Sequenced};
use crate::queue::{PartitionId, QueueId};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};

/// `i` are the next rows, from the mark on (`low_id`): while some old transaction is open
/// the rows taken since it began cannot be removed, and every pass would walk over them.
/// `q` is the lock, taken only if there are any: a look that finds nothing writes
/// nothing. Where asked it makes the commit asynchronous at no round trip's cost. `t` takes
/// the rows by ctid; one that another pass took since our snapshot is skipped by the
/// re-check, and makes a partition of each slot: the lowest bits, also of a slot that is 16384 and
/// a partition chosen by hand. One beyond the count stays. Rows are
/// compared where an equality would do, because the planner takes that for a handful of
/// rows, and sorts the whole backlog instead of walking the index. `r` are the partitions
/// that are still where they were last (`$6`), and `u` moves them there. `v` moves all others
/// by their key, which leads over every version since an old transaction began: those that
/// are not known yet, and those that somebody else's pass moved between our snapshot and our
/// lock. An update by key follows such a row to its newest version, where one by ctid gives
/// it up. Asking first whether there are any spares a usual pass the look at every partition
/// that the planner prefers to an index while they are few. So every row taken gets a number,
/// unless its partition does not exist: then the cast fails, which undoes the statement and
/// names the partition.
///
/// `w` raises the mark. Who enqueues has a transaction id before it draws a body id. So
/// whoever drew an id up to the highest that a pass took (`high_id`) has a lower transaction
/// id than that pass (`high_xid`). Once our snapshot says that all up to it have ended, we
/// see every such row, and take it, if we came to the end or beyond `high_id`. Kept in the
/// database, it comes back from a crash with what it is about. Should there be a row
/// below nevertheless (ids that begin anew, a foreign producer), a pass that is thorough
/// (`$4`) finds it, and the mark is forgotten.
const SEQUENCE: &str = "\
    WITH i AS MATERIALIZED ( \
        SELECT i.ctid AS place, i.id FROM outbox_incoming i \
        WHERE (i.queue_id, i.id) > ($1, CASE WHEN $4 THEN -1 ELSE \
                (SELECT low_id FROM outbox_queue WHERE id = $1) END) \
            AND (i.queue_id, i.id) <= ($1, 9223372036854775807) \
            AND i.slot < 16384 + (SELECT partitions FROM outbox_queue WHERE id = $1) \
        ORDER BY i.queue_id, i.id LIMIT $2 \
    ), q AS MATERIALIZED ( \
        SELECT partitions, low_id, high_id, high_xid, \
            CASE WHEN $3 THEN set_config('synchronous_commit', 'off', true) END \
        FROM outbox_queue WHERE id = $1 AND EXISTS (SELECT FROM i) \
        FOR NO KEY UPDATE SKIP LOCKED \
    ), t AS ( \
        DELETE FROM outbox_incoming \
        WHERE ctid = ANY (ARRAY(SELECT place FROM i WHERE EXISTS (SELECT FROM q))) \
        RETURNING id, $1 + (slot & (SELECT partitions - 1 FROM q)) AS partition_id \
    ), n AS ( \
        SELECT partition_id, count(*) AS rows FROM t GROUP BY partition_id \
    ), r AS MATERIALIZED ( \
        SELECT p.id, p.place FROM unnest($5::bigint[], $6::text[]) AS m (id, place), LATERAL ( \
            SELECT id, ctid AS place FROM outbox_partition WHERE ctid = m.place::tid OFFSET 0 \
        ) AS p WHERE p.id = m.id \
    ), u AS ( \
        UPDATE outbox_partition p SET sequence = p.sequence + m.rows \
        FROM (SELECT n.rows, r.place FROM n JOIN r ON r.id = n.partition_id) AS m \
        WHERE p.ctid = m.place \
        RETURNING p.id, p.sequence - m.rows AS base, p.ctid AS place \
    ), s AS MATERIALIZED ( \
        SELECT n.partition_id, n.rows FROM n \
        WHERE NOT EXISTS (SELECT FROM u WHERE u.id = n.partition_id) \
    ), v AS ( \
        UPDATE outbox_partition p SET sequence = p.sequence + s.rows \
        FROM s WHERE p.id = s.partition_id AND EXISTS (SELECT FROM s) \
        RETURNING p.id, p.sequence - s.rows AS base, p.ctid AS place \
    ), p AS MATERIALIZED ( \
        SELECT id, base, place FROM u UNION ALL SELECT id, base, place FROM v \
    ), o AS ( \
        INSERT INTO outbox_outgoing (partition_id, seq, id) \
        SELECT t.partition_id, \
            p.base + row_number() OVER (PARTITION BY t.partition_id ORDER BY t.id), t.id \
        FROM t JOIN p ON p.id = t.partition_id \
        RETURNING id \
    ), k AS MATERIALIZED ( \
        SELECT c.last, $4 AND c.first <= q.low_id AS below, \
            pg_current_xact_id()::text::bigint AS xid, \
            pg_snapshot_xmin(pg_current_snapshot())::text::bigint > q.high_xid \
                AND (c.rows < $2 OR c.last >= q.high_id) AS proven \
        FROM q, (SELECT count(*) AS rows, min(id) AS first, max(id) AS last FROM i) AS c \
    ), w AS ( \
        UPDATE outbox_queue SET \
            low_id = CASE WHEN k.below THEN 0 WHEN k.proven THEN GREATEST(low_id, high_id) \
                ELSE low_id END, \
            high_id = CASE WHEN k.below THEN 0 ELSE k.last END, \
            high_xid = k.xid \
        FROM k WHERE id = $1 AND (k.below OR (k.last >= high_id + 1000 \
            AND (k.proven OR high_xid > k.xid))) \
    ) \
    SELECT n.partition_id, n.rows, \
        CASE WHEN p.id IS NULL AND n.partition_id IS NOT NULL THEN \
            ('outbox_partition has no row ' || n.partition_id)::int END, \
        EXISTS (SELECT FROM i) AND NOT EXISTS (SELECT FROM q), p.place::text \
    FROM (VALUES (1)) AS one LEFT JOIN n ON true LEFT JOIN p ON p.id = n.partition_id";

pub(crate) async fn sequence<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    limit: u32,
    asynchronous: bool,
    thorough: bool,
    places: &mut Places,
) -> Result<Sequenced, DbErr> {
    let known = std::mem::take(&mut places.known);
    let (known, at): (Vec<PartitionId>, Vec<String>) = known.into_iter().unzip();
    let values = [
        queue_id.into(),
        i64::from(limit).into(),
        asynchronous.into(),
        thorough.into(),
        known.iter().map(|id| id.get()).collect::<Vec<i64>>().into(),
        at.clone().into(),
    ];
    let rows = query(conn, SEQUENCE, values).await?;
    places.known = known.into_iter().zip(at).collect();
    let mut done = Sequenced::default();
    for row in &rows {
        done.locked = row.try_get_by_index(3)?;
        if let Some(partition_id) = row.try_get_by_index::<Option<PartitionId>>(0)? {
            let taken: i64 = row.try_get_by_index(1)?;
            done.add(partition_id, usize::try_from(taken).unwrap_or(0));
            places.known.insert(partition_id, row.try_get_by_index(4)?);
        }
    }
    Ok(done)
}

/// For each partition what every consumer has passed, from where the last pass
/// stopped: starting at the oldest row would walk over every row deleted while
/// some old transaction was open. It ends at the first row that is to be retained.
/// Rows of the log are never updated, so each is deleted where it was found.
/// A queue without consumers keeps everything.
const VACUUM: &str = "\
    WITH s AS MATERIALIZED ( \
        SELECT CASE WHEN $4 THEN set_config('synchronous_commit', 'off', true) END \
    ), w AS MATERIALIZED ( \
        SELECT m.partition_id, m.after, min(c.processed_seq) AS upto \
        FROM s, unnest($1::bigint[], $2::bigint[]) AS m (partition_id, after) \
        JOIN outbox_cursor c ON c.partition_id = m.partition_id \
        GROUP BY m.partition_id, m.after HAVING min(c.processed_seq) > m.after \
    ), v AS MATERIALIZED ( \
        SELECT partition_id, seq, id, place FROM ( \
            SELECT w.partition_id, o.seq, o.id, o.place, bool_and($5 = 0 OR COALESCE(( \
                SELECT b.enqueued_at <= clock_timestamp() - $5 * interval '1 microsecond' \
                FROM outbox_body b WHERE b.id = o.id \
            ), true)) OVER (PARTITION BY w.partition_id ORDER BY o.seq) AS old \
            FROM w CROSS JOIN LATERAL ( \
                SELECT o.seq, o.id, o.ctid AS place FROM outbox_outgoing o \
                WHERE o.partition_id = w.partition_id AND o.seq > w.after AND o.seq <= w.upto \
                ORDER BY o.seq LIMIT $3 \
            ) AS o \
        ) AS a WHERE old \
    ), x AS ( \
        DELETE FROM outbox_outgoing WHERE ctid = ANY (ARRAY(SELECT place FROM v)) \
    ), y AS ( \
        DELETE FROM outbox_body b USING v WHERE b.id = v.id \
    ) \
    SELECT partition_id, max(seq), count(*) FROM v GROUP BY partition_id";

pub(crate) async fn vacuum<C: ConnectionTrait>(
    conn: &C,
    from: &[(PartitionId, i64)],
    limit: u32,
    retention_micros: i64,
    asynchronous: bool,
) -> Result<Vec<Vacuumed>, DbErr> {
    let (ids, after): (Vec<i64>, Vec<i64>) =
        from.iter().map(|(id, after)| (id.get(), after)).unzip();
    let values = [
        ids.into(),
        after.into(),
        i64::from(limit).into(),
        asynchronous.into(),
        retention_micros.into(),
    ];
    query(conn, VACUUM, values)
        .await?
        .iter()
        .map(|row| {
            Ok(Vacuumed {
                partition_id: row.try_get_by_index(0)?,
                upto: row.try_get_by_index(1)?,
                rows: row.try_get_by_index(2)?,
            })
        })
        .collect()
}

pub(super) async fn query<C, V>(conn: &C, sql: &str, values: V) -> Result<Vec<QueryResult>, DbErr>
where
    C: ConnectionTrait,
    V: IntoIterator<Item = Value>,
{
    conn.query_all_raw(Statement::from_sql_and_values(
        DbBackend::Postgres,
        sql,
        values,
    ))
    .await
}
