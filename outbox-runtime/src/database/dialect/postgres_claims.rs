//! PostgreSQL's claims: one statement each, or one for many.

use super::postgres_worker::query;
use crate::database::attempts::Attempts;
use crate::database::claims::QuickClaim;
use crate::database::connection_cache::Kept;
use crate::database::cursor::{ClaimRequest, Claimed, Place, RawRow};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement};

/// Lock, acknowledge, look, and only if there is something (or something to
/// acknowledge) write; one statement for an idle poll, a first claim, and the
/// acknowledgement of a batch together with the claim of the next.
///
/// `r` finds the cursor where it was last (`$12`), or else by its key: while some old
/// transaction is open a key leads to every version since, and there is one per batch.
/// `l` locks it if it is free or ours; a locked one is somebody's at work, and so is
/// one that has changed since the statement began (another `xmin`): what else is read
/// here would be older than it, the failure record above all.
/// An acknowledgement counts (`held`) if the message it is about (`$13`, `$14`) still has its
/// number. `c` is the cursor after the acknowledgement. `m` are the records of attempts
/// beyond it, `f` is that of the next message unless it is done: while there is one, or
/// after a claim that died (`claimed > processed`), one message is claimed. `n` are the rows;
/// none before the next attempt is due, none from a later one that failed on, none of
/// a paused queue, none if `$8` is 0, which only acknowledges, and no suspect that
/// `$11` refuses. `u` writes. Of the rows only those are returned whose bodies come to `$15`
/// bytes, and the one that reaches it; the others stay claimed until these are acknowledged.
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
            (lease_owner = $3 AND lease_epoch = $4 AND EXISTS (SELECT FROM outbox_outgoing o \
                WHERE o.partition_id = $1 AND o.seq = $13 AND o.id = $14)) IS TRUE AS held, \
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
        SELECT a.seq, a.failures, a.deaths, a.done, a.not_before FROM outbox_attempt a \
        WHERE a.partition_id = $1 AND a.consumer = $2 AND a.seq > (SELECT processed FROM c) \
    ), f AS MATERIALIZED ( \
        SELECT a.not_before > clock_timestamp() AS waiting, \
            (extract(epoch FROM a.not_before - clock_timestamp()) * 1000000)::bigint AS due_in, \
            a.failures, a.deaths \
        FROM c JOIN m AS a ON a.seq = c.processed + 1 AND NOT a.done \
    ), n AS MATERIALIZED ( \
        SELECT o.seq, o.id FROM ( \
        SELECT o.seq, o.id FROM outbox_outgoing o \
        WHERE EXISTS (SELECT FROM c) AND NOT EXISTS (SELECT FROM f WHERE waiting) \
            AND NOT EXISTS (SELECT FROM outbox_queue WHERE id = $1 & -4096::bigint AND paused) \
            AND NOT EXISTS (SELECT FROM c WHERE c.claimed > c.processed \
                AND ($11 = 2 OR ($11 = 1 AND EXISTS (SELECT FROM f WHERE deaths > 0)))) \
            AND o.partition_id = $1 AND o.seq > (SELECT processed FROM c) \
            AND o.seq < (SELECT COALESCE(min(m.seq), 9223372036854775807) FROM m, c \
                WHERE NOT m.done AND m.seq > c.processed + 1) \
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
                ELSE clock_timestamp() + $7 * interval '1 microsecond' END, \
            lease_ms = CASE WHEN k.last IS NULL THEN lease_ms ELSE $16 END \
        FROM c, (SELECT max(seq) AS last FROM n) AS k \
        WHERE ctid = (SELECT place FROM r) AND (c.held OR k.last IS NOT NULL) \
        RETURNING outbox_cursor.lease_epoch, outbox_cursor.ctid AS place, \
            outbox_cursor.xmin AS version, \
            outbox_cursor.xmin = pg_current_xact_id()::xid AS outermost \
    ), d AS ( \
        DELETE FROM outbox_attempt \
        WHERE $10 AND EXISTS (SELECT FROM c WHERE held) \
            AND partition_id = $1 AND consumer = $2 AND seq <= $5 \
    ) \
    SELECT c.held, c.claimed > c.processed, c.claimed, (SELECT due_in FROM f), \
        (SELECT lease_epoch FROM u), (SELECT failures FROM f), (SELECT deaths FROM f), \
        b.seq, b.id, b.event_type, b.key, b.payload, b.headers, b.target, b.enqueued_us, \
        b.nonce, (SELECT outermost FROM u), b.seq IN (SELECT m.seq FROM m WHERE m.done), \
        COALESCE((SELECT place FROM u), (SELECT place FROM r))::text, \
        COALESCE((SELECT version FROM u), (SELECT version FROM r))::text, c.processed, \
        (SELECT max(seq) FROM n) \
    FROM c LEFT JOIN ( \
        SELECT n.seq, n.id, b.*, sum(octet_length(b.payload)) OVER (ORDER BY n.seq ROWS UNBOUNDED PRECEDING) AS bytes \
        FROM n LEFT JOIN LATERAL ( \
            SELECT event_type, key, payload, headers, target, \
                (extract(epoch FROM enqueued_at) * 1000000)::bigint AS enqueued_us, nonce \
            FROM outbox_body WHERE id = n.id OFFSET 0 \
        ) AS b ON true \
    ) AS b ON b.bytes IS NULL OR b.bytes - COALESCE(octet_length(b.payload), 0) < $15 \
    ORDER BY b.seq"
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
        request.place.map(|place| &*place.ctid).into(),
        ack.map_or(0, |ack| ack.anchor.0).into(),
        ack.map_or(0, |ack| ack.anchor.1).into(),
        request.most_bytes.into(),
        request.lease_millis().into(),
    ];
    let sql = if ack.is_some() { ACK_AND_CLAIM } else { CLAIM };
    let rows = query(conn, sql, values).await?;
    let Some(first) = rows.first() else {
        return Ok(Claimed::busy());
    };
    let epoch = first.try_get_by_index::<Option<i64>>(4)?;
    let mut claimed = Claimed {
        free: true,
        acked: first.try_get_by_index(0)?,
        recovering: first
            .try_get_by_index::<bool>(1)?
            .then(|| first.try_get_by_index(2))
            .transpose()?,
        due_in: first.try_get_by_index(3)?,
        epoch: epoch.unwrap_or(-1),
        attempts: match first.try_get_by_index::<Option<i32>>(5)? {
            None => None,
            Some(failures) => Some(Attempts {
                failures,
                deaths: first.try_get_by_index(6)?,
            }),
        },
        outermost: first.try_get_by_index::<Option<bool>>(16)?.unwrap_or(true),
        cut: false,
        place: None,
        rows: Vec::with_capacity(rows.len()),
    };
    for row in &rows {
        if let Some(seq) = row.try_get_by_index::<Option<i64>>(7)? {
            let done = row.try_get_by_index(17)?;
            let row = RawRow::read(row, seq, 8)?;
            claimed.rows.push(RawRow { done, ..row });
        }
    }
    let last = first.try_get_by_index::<Option<i64>>(21)?;
    claimed.cut = last > claimed.rows.last().map(|row| row.seq);
    if claimed.recovering.is_none() {
        claimed.place = Some(Place {
            ctid: first.try_get_by_index(18)?,
            version: first.try_get_by_index(19)?,
            processed: first.try_get_by_index(20)?,
            lease: epoch.filter(|_| !claimed.rows.is_empty()),
        });
    }
    Ok(claimed)
}

/// The same for many cursors at once, in the usual case: each is where we left it (`$3`)
/// and is the version that we wrote (`$4`), so nobody has claimed it since and what is
/// read here is no older; no message of it failed, its queue is not paused, and the message
/// that it acknowledges still has its number (`$11`, `$12`). Others are not answered, and are
/// asked for by [`claim`].
///
/// `b` are those to which this applies. `n` are their next messages, and before them the last
/// that is done, where there is one: it costs no search of its own. `u` acknowledges if
/// there is an epoch (`$6`), and writes nothing if there is neither that nor a message.
/// That the lease is ours or free is asked in so many words: a server that
/// crashed may give the number of a lost transaction (`$4`) to another one.
const CLAIM_TOGETHER: &str = "\
    WITH b AS MATERIALIZED ( \
        SELECT a.partition_id, a.consumer, a.place::tid AS place, a.version::xid AS version, \
            a.processed, a.epoch, a.most, a.lease, a.anchor_seq, a.anchor_id, a.number, \
            CASE WHEN a.epoch >= 0 THEN 1 ELSE 0 END AS done, \
            CASE WHEN $10 THEN set_config('synchronous_commit', 'off', true) END \
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], \
            $7::bigint[], $8::bigint[], $11::bigint[], $12::bigint[]) WITH ORDINALITY \
            AS a (partition_id, consumer, place, version, processed, epoch, most, lease, \
                anchor_seq, anchor_id, number) \
        WHERE NOT EXISTS (SELECT FROM outbox_attempt t \
                WHERE t.partition_id = a.partition_id AND t.consumer = a.consumer) \
            AND NOT EXISTS (SELECT FROM outbox_queue q \
                WHERE q.id = a.partition_id & -4096::bigint AND q.paused) \
    ), n AS MATERIALIZED ( \
        SELECT b.number, o.seq, o.id FROM b CROSS JOIN LATERAL ( \
            SELECT o.seq, o.id FROM ( \
                SELECT o.seq, o.id FROM outbox_outgoing o \
                WHERE o.partition_id = b.partition_id AND o.seq > b.processed - b.done \
                ORDER BY o.seq LIMIT 10000 \
            ) AS o ORDER BY o.seq LIMIT b.most + b.done \
        ) AS o \
    ), u AS ( \
        UPDATE outbox_cursor c SET \
            processed_seq = m.processed, \
            claimed_seq = COALESCE(m.last, m.processed), \
            lease_epoch = c.lease_epoch + CASE WHEN m.last IS NULL THEN 0 ELSE 1 END, \
            lease_owner = CASE WHEN m.last IS NULL THEN NULL ELSE $9 END, \
            lease_until = CASE WHEN m.last IS NULL THEN NULL \
                ELSE clock_timestamp() + m.lease * interval '1 microsecond' END, \
            lease_ms = CASE WHEN m.last IS NULL THEN c.lease_ms \
                ELSE LEAST(m.lease / 1000, 2147483647) END \
        FROM ( \
            SELECT b.*, (SELECT max(n.seq) FROM n \
                WHERE n.number = b.number AND n.seq > b.processed) AS last \
            FROM b WHERE b.done = 0 OR EXISTS (SELECT FROM n \
                WHERE n.number = b.number AND n.seq = b.anchor_seq AND n.id = b.anchor_id) \
        ) AS m \
        WHERE c.ctid = m.place AND c.xmin = m.version AND c.partition_id = m.partition_id \
            AND c.consumer = m.consumer AND CASE WHEN m.epoch >= 0 \
                THEN c.lease_owner = $9 AND c.lease_epoch = m.epoch \
                ELSE m.last IS NOT NULL AND c.processed_seq = m.processed \
                    AND c.claimed_seq <= c.processed_seq AND (c.lease_until IS NULL \
                        OR c.lease_until <= clock_timestamp() OR c.lease_owner = $9) \
                END \
        RETURNING m.number, c.lease_epoch, c.ctid, c.xmin, c.processed_seq \
    ) \
    SELECT u.number, u.lease_epoch, u.ctid::text, u.xmin::text, u.processed_seq, \
        n.seq, n.id, b.event_type, b.key, b.payload, b.headers, b.target, b.enqueued_us, \
        b.nonce \
    FROM u LEFT JOIN n ON n.number = u.number AND n.seq > u.processed_seq LEFT JOIN LATERAL ( \
        SELECT event_type, key, payload, headers, target, \
            (extract(epoch FROM enqueued_at) * 1000000)::bigint AS enqueued_us, nonce \
        FROM outbox_body WHERE id = n.id OFFSET 0 \
    ) AS b ON true \
    ORDER BY u.number, n.seq";

/// What became of each request; `None` where it was not the usual case. Of each the rows are
/// kept up to the one that reaches its bytes: a window in the statement would cost every
/// message a tenth more. The next claim asks for no more than these.
pub(crate) async fn claim_together(
    kept: &Kept,
    requests: &[QuickClaim],
    owner: &str,
    asynchronous: bool,
) -> Result<Vec<Option<Claimed>>, DbErr> {
    let numbers = |of: fn(&QuickClaim) -> i64| -> Vec<i64> { requests.iter().map(of).collect() };
    let texts = |of: fn(&QuickClaim) -> &str| -> Vec<String> {
        requests
            .iter()
            .map(|request| of(request).to_owned())
            .collect()
    };
    let values = [
        numbers(|request| request.partition_id.get()).into(),
        texts(|request| &request.consumer).into(),
        texts(|request| &request.ctid).into(),
        texts(|request| &request.version).into(),
        numbers(|request| request.processed).into(),
        numbers(|request| request.epoch.unwrap_or(-1)).into(),
        numbers(|request| request.limit.into()).into(),
        numbers(|request| request.lease_micros).into(),
        owner.into(),
        asynchronous.into(),
        numbers(|request| request.anchor.0).into(),
        numbers(|request| request.anchor.1).into(),
    ];
    let mut claims: Vec<Option<Claimed>> = requests.iter().map(|_| None).collect();
    let mut bytes = vec![0; requests.len()];
    let each = |row: QueryResult| {
        let number: i64 = row.try_get_by_index(0)?;
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let (Some(claim), Some(request)) = (claims.get_mut(index), requests.get(index)) else {
            return Err(DbErr::RecordNotFound(format!("claim {number}")));
        };
        let epoch: i64 = row.try_get_by_index(1)?;
        let seq: Option<i64> = row.try_get_by_index(5)?;
        if claim.is_none() {
            *claim = Some(Claimed {
                free: true,
                acked: request.epoch.is_some(),
                epoch,
                place: Some(Place {
                    ctid: row.try_get_by_index(2)?,
                    version: row.try_get_by_index(3)?,
                    processed: row.try_get_by_index(4)?,
                    lease: seq.map(|_| epoch),
                }),
                ..Claimed::busy()
            });
        }
        if let (Some(claim), Some(seq)) = (claim, seq) {
            if bytes[index] >= request.most_bytes {
                claim.cut = true;
                return Ok(());
            }
            let row = RawRow::read(&row, seq, 6)?;
            let size = row.body.as_ref().map_or(0, |body| body.payload.len());
            bytes[index] += i64::try_from(size).unwrap_or(i64::MAX);
            claim.rows.push(row);
        }
        Ok(())
    };
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, CLAIM_TOGETHER, values);
    kept.query_each(statement, each).await?;
    Ok(claims)
}
