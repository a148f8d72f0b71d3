//! PostgreSQL's one-statement forms of what a worker does all the time.

use crate::store::cleanup::Vacuumed;
use crate::store::cursor::{ClaimRequest, Claimed, RawRow};
use crate::store::sequencing::{Places, Sequenced};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, Value};

/// `i` are the next rows, from the mark on (`low_id`): while some old transaction is open
/// the rows taken since it began cannot be removed, and every pass would walk over them.
/// `q` is the lock, taken only if there are any: a look that finds nothing writes
/// nothing. Where asked it makes the commit asynchronous at no round trip's cost. `t` takes
/// the rows by ctid; one that another pass took since our snapshot is skipped by the
/// re-check. Partitions nobody registered are beyond the count and stay. Rows and CASE are
/// compared where an equality would do, because the planner takes that for a handful of
/// rows, and sorts the whole backlog instead of walking the index. `r` are the partitions
/// that are still where they were last (`$6`); others are found by their key, which leads
/// over every version since an old transaction began. The division fails the statement if
/// fewer rows were written than taken.
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
            AND CASE WHEN i.partition_id >= $1 THEN i.partition_id < $1 + \
                (SELECT partitions FROM outbox_queue WHERE id = $1) END \
        ORDER BY i.queue_id, i.id LIMIT $2 \
    ), q AS MATERIALIZED ( \
        SELECT low_id, high_id, high_xid, \
            CASE WHEN $3 THEN set_config('synchronous_commit', 'off', true) END \
        FROM outbox_queue WHERE id = $1 AND EXISTS (SELECT FROM i) \
        FOR NO KEY UPDATE SKIP LOCKED \
    ), t AS ( \
        DELETE FROM outbox_incoming \
        WHERE ctid = ANY (ARRAY(SELECT place FROM i WHERE EXISTS (SELECT FROM q))) \
        RETURNING id, partition_id \
    ), n AS ( \
        SELECT partition_id, count(*) AS rows FROM t GROUP BY partition_id \
    ), r AS MATERIALIZED ( \
        SELECT p.id, p.place FROM unnest($5::bigint[], $6::text[]) AS m (id, place), LATERAL ( \
            SELECT id, ctid AS place FROM outbox_partition WHERE ctid = m.place::tid OFFSET 0 \
        ) AS p WHERE p.id = m.id \
    ), p AS ( \
        UPDATE outbox_partition p SET sequence = p.sequence + m.rows \
        FROM ( \
            SELECT n.partition_id, n.rows, COALESCE(r.place, ( \
                SELECT s.ctid FROM outbox_partition s WHERE s.id = n.partition_id)) AS place \
            FROM n LEFT JOIN r ON r.id = n.partition_id \
        ) AS m WHERE p.ctid = m.place \
        RETURNING p.id, p.sequence - m.rows AS base, p.ctid AS place \
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
        FROM k WHERE id = $1 AND (k.below OR (k.last >= low_id + 500 \
            AND (k.proven OR high_id <= low_id OR high_xid > k.xid))) \
    ) \
    SELECT n.partition_id, n.rows, \
        1 / CASE WHEN (SELECT count(*) FROM t) = (SELECT count(*) FROM o) THEN 1 ELSE 0 END, \
        EXISTS (SELECT FROM i) AND NOT EXISTS (SELECT FROM q), p.place::text \
    FROM (VALUES (1)) AS one LEFT JOIN n ON true LEFT JOIN p ON p.id = n.partition_id";

pub(crate) async fn sequence<C: ConnectionTrait>(
    conn: &C,
    queue_id: i64,
    limit: u32,
    asynchronous: bool,
    thorough: bool,
    places: &mut Places,
) -> Result<Sequenced, DbErr> {
    let (known, at): (Vec<i64>, Vec<String>) = std::mem::take(places).into_iter().unzip();
    let values = [
        queue_id.into(),
        i64::from(limit).into(),
        asynchronous.into(),
        thorough.into(),
        known.clone().into(),
        at.clone().into(),
    ];
    let rows = query(conn, SEQUENCE, values).await?;
    *places = known.into_iter().zip(at).collect();
    let mut done = Sequenced::default();
    for row in &rows {
        done.locked = row.try_get_by_index(3)?;
        if let Some(partition_id) = row.try_get_by_index::<Option<i64>>(0)? {
            let taken: i64 = row.try_get_by_index(1)?;
            done.add(partition_id, usize::try_from(taken).unwrap_or(0));
            places.insert(partition_id, row.try_get_by_index(4)?);
        }
    }
    Ok(done)
}

/// Lock, acknowledge, look, and only if there is something (or something to
/// acknowledge) write; one statement for an idle poll, a first claim, and the
/// acknowledgement of a batch together with the claim of the next.
///
/// `r` finds the cursor where it was last (`$12`), or else by its key: while some old
/// transaction is open a key leads to every version since, and there is one per batch.
/// `l` locks it if it is free or ours; a locked one is somebody's at work, and so is
/// one that has changed since the statement began (another `xmin`): what else is read
/// here would be older than it, the failure record above all.
/// `c` is the cursor after the acknowledgement. `m` are the records of attempts
/// beyond it, `f` is that of the next message if it failed: while there is one, or
/// after a claim that died (`claimed > processed`), one message is claimed, and
/// charged as it is (`g`) unless its record says that it is done. `n` are the rows;
/// none before the next attempt is due, none from a later one that failed on, none of
/// a paused queue, none if `$8` is 0, which only acknowledges, and no suspect that
/// `$11` refuses. `u` writes.
///
/// `outermost` is false if `u` wrote inside a savepoint: its row then has another
/// transaction id than the transaction.
///
/// The planner guesses a tenth of the partition for a LIMIT it cannot see and
/// would read all bodies: the literal limit and the LATERAL with OFFSET keep it to
/// looking rows up by key, whatever the statistics say.
macro_rules! claim {
    ($lock:literal) => {
        concat!(
            "\
    WITH e AS MATERIALIZED ( \
        SELECT ctid AS place, xmin AS version FROM outbox_cursor \
        WHERE ctid = $12::text::tid AND partition_id = $1 AND consumer = $2 \
    ), r AS MATERIALIZED ( \
        SELECT place, version FROM e UNION ALL \
        SELECT ctid, xmin FROM outbox_cursor \
        WHERE partition_id = $1 AND consumer = $2 AND NOT EXISTS (SELECT FROM e) \
    ), l AS MATERIALIZED ( \
        SELECT processed_seq, claimed_seq, lease_epoch, \
            (lease_owner = $3 AND lease_epoch = $4) IS TRUE AS held, \
            CASE WHEN $9 THEN set_config('synchronous_commit', 'off', true) END \
        FROM outbox_cursor \
        WHERE ctid = (SELECT place FROM r) AND xmin = (SELECT version FROM r) \
            AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR lease_owner = $3) \
        ",
            $lock,
            " \
    ), c AS MATERIALIZED ( \
        SELECT held, lease_epoch, \
            CASE WHEN held THEN $5 ELSE processed_seq END AS processed, \
            CASE WHEN held THEN $6 ELSE claimed_seq END AS claimed \
        FROM l \
    ), m AS MATERIALIZED ( \
        SELECT a.seq, a.attempts, a.not_before FROM outbox_attempt a \
        WHERE a.partition_id = $1 AND a.consumer = $2 AND a.seq > (SELECT processed FROM c) \
    ), f AS MATERIALIZED ( \
        SELECT a.not_before > clock_timestamp() AS waiting, \
            (extract(epoch FROM a.not_before - clock_timestamp()) * 1000000)::bigint AS due_in \
        FROM c JOIN m AS a ON a.seq = c.processed + 1 AND a.attempts > 0 \
    ), n AS MATERIALIZED ( \
        SELECT o.seq, o.id FROM ( \
        SELECT o.seq, o.id FROM outbox_outgoing o \
        WHERE EXISTS (SELECT FROM c) AND NOT EXISTS (SELECT FROM f WHERE waiting) \
            AND NOT EXISTS (SELECT FROM outbox_queue WHERE id = $1 & -64::bigint AND paused) \
            AND NOT EXISTS (SELECT FROM c WHERE c.claimed > c.processed \
                AND ($11 = 2 OR ($11 = 1 AND EXISTS (SELECT FROM f)))) \
            AND o.partition_id = $1 AND o.seq > (SELECT processed FROM c) \
            AND o.seq < (SELECT COALESCE(min(m.seq), 9223372036854775807) FROM m, c \
                WHERE m.attempts > 0 AND m.seq > c.processed + 1) \
        ORDER BY o.seq LIMIT 10000 \
        ) AS o ORDER BY o.seq \
        LIMIT (SELECT CASE WHEN $8 > 0 AND (c.claimed > c.processed OR EXISTS (SELECT FROM f)) \
            THEN 1 ELSE $8 END FROM c) \
    ), u AS ( \
        UPDATE outbox_cursor SET \
            processed_seq = c.processed, \
            claimed_seq = GREATEST(c.claimed, c.processed, k.last), \
            lease_epoch = c.lease_epoch + CASE WHEN k.last IS NULL THEN 0 ELSE 1 END, \
            lease_owner = CASE WHEN k.last IS NULL THEN NULL ELSE $3 END, \
            lease_until = CASE WHEN k.last IS NULL THEN NULL \
                ELSE clock_timestamp() + $7 * interval '1 microsecond' END \
        FROM c, (SELECT max(seq) AS last FROM n) AS k \
        WHERE ctid = (SELECT place FROM r) AND (c.held OR k.last IS NOT NULL) \
        RETURNING outbox_cursor.lease_epoch, outbox_cursor.ctid AS place, \
            outbox_cursor.xmin = pg_current_xact_id()::xid AS outermost \
    ), g AS ( \
        INSERT INTO outbox_attempt AS a (partition_id, consumer, seq, attempts, not_before) \
        SELECT $1, $2, n.seq, 1, clock_timestamp() FROM n, c \
        WHERE (c.claimed > c.processed OR EXISTS (SELECT FROM f)) \
            AND NOT EXISTS (SELECT FROM m WHERE m.seq = n.seq AND m.attempts = 0) \
        ON CONFLICT (partition_id, consumer, seq) \
            DO UPDATE SET attempts = LEAST(a.attempts, 2147483646) + 1 \
        RETURNING attempts \
    ), d AS ( \
        DELETE FROM outbox_attempt \
        WHERE $10 AND EXISTS (SELECT FROM c WHERE held) \
            AND partition_id = $1 AND consumer = $2 AND seq <= $5 \
    ) \
    SELECT c.held, c.claimed > c.processed, c.claimed, (SELECT due_in FROM f), \
        (SELECT lease_epoch FROM u), (SELECT attempts FROM g), \
        n.seq, n.id, b.event_type, b.key, b.payload, b.headers, b.target, b.enqueued_us, \
        (SELECT outermost FROM u), n.seq IN (SELECT m.seq FROM m WHERE m.attempts = 0), \
        COALESCE((SELECT place FROM u), (SELECT place FROM r))::text \
    FROM c LEFT JOIN n ON true LEFT JOIN LATERAL ( \
        SELECT event_type, key, payload, headers, target, \
            (extract(epoch FROM enqueued_at) * 1000000)::bigint AS enqueued_us \
        FROM outbox_body WHERE id = n.id OFFSET 0 \
    ) AS b ON true \
    ORDER BY n.seq"
        )
    };
}

/// A first claim, which leaves a locked cursor to who has it.
const CLAIM: &str = claim!("FOR NO KEY UPDATE SKIP LOCKED");
/// One that acknowledges too, which waits. A claim of somebody else that began before
/// ours locks the cursor before it finds that it is not free, and lets go at once:
/// taking that for a lost lease would deliver again what is done.
const ACK_AND_CLAIM: &str = claim!("FOR NO KEY UPDATE");

pub(crate) async fn claim<C: ConnectionTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    let ack = request.ack.as_ref();
    let values = [
        request.partition_id.into(),
        request.consumer.into(),
        request.owner.into(),
        ack.map_or(-1, |ack| ack.epoch).into(),
        ack.map_or(0, |ack| ack.processed).into(),
        ack.map_or(0, |ack| ack.claimed).into(),
        request.lease_micros().into(),
        i64::from(request.limit).into(),
        request.asynchronous.into(),
        ack.is_some_and(|ack| ack.forget_attempts).into(),
        (request.refuse as i64).into(),
        request.place.into(),
    ];
    let sql = if ack.is_some() { ACK_AND_CLAIM } else { CLAIM };
    let rows = query(conn, sql, values).await?;
    let Some(first) = rows.first() else {
        return Ok(Claimed::busy());
    };
    let mut claimed = Claimed {
        free: true,
        acked: first.try_get_by_index(0)?,
        recovering: first
            .try_get_by_index::<bool>(1)?
            .then(|| first.try_get_by_index(2))
            .transpose()?,
        due_in: first.try_get_by_index(3)?,
        epoch: first.try_get_by_index::<Option<i64>>(4)?.unwrap_or(-1),
        charged: first.try_get_by_index(5)?,
        outermost: first.try_get_by_index::<Option<bool>>(14)?.unwrap_or(true),
        place: first.try_get_by_index(16)?,
        rows: Vec::with_capacity(rows.len()),
    };
    for row in &rows {
        if let Some(seq) = row.try_get_by_index::<Option<i64>>(6)? {
            let done = row.try_get_by_index(15)?;
            let row = RawRow::read(row, seq, 7)?;
            claimed.rows.push(RawRow { done, ..row });
        }
    }
    Ok(claimed)
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
    from: &[(i64, i64)],
    limit: u32,
    retention_micros: i64,
    asynchronous: bool,
) -> Result<Vec<Vacuumed>, DbErr> {
    let (ids, after): (Vec<i64>, Vec<i64>) = from.iter().copied().unzip();
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

async fn query<C, V>(conn: &C, sql: &str, values: V) -> Result<Vec<QueryResult>, DbErr>
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
