//! Claims: one statement each, or one for many.

use crate::database::Engine;
use crate::database::attempts::Attempts;
use crate::database::connection_cache::ConnectionCache;
use crate::database::cursor::{
    ClaimRequest, Claimed, MessageColumns, QuickClaim, RawRow, RowVersion,
};
use crate::database::statement::{Run, statements, values};
use sea_orm::{ConnectionTrait, DbErr, QueryResult};

statements! { POSTGRES;
    /// A first claim skips a locked cursor: another process is working on it.
    CLAIM = file "claim.sql", { lock: "FOR NO KEY UPDATE SKIP LOCKED" };
    /// One that acknowledges too waits for the lock. Another process's claim that began before ours
    /// locks the cursor, finds that it is not free, and lets go at once. Taking that for a lost lease
    /// would deliver again what is done.
    ACKNOWLEDGE_AND_CLAIM = file "claim.sql", { lock: "FOR NO KEY UPDATE" };
    CLAIM_TOGETHER = file "claim_together.sql";
}

pub(in crate::database) const CAN_CLAIM_TOGETHER: bool = true;

pub(in crate::database) async fn claim<C: ConnectionTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    let ack = request.ack.as_ref();
    let values = values! {
        partition: request.partition_id,
        queue: request.partition_id.queue(),
        consumer: request.consumer,
        owner: request.owner,
        row: request.row_version.map(|row| &*row.ctid),
        refuse: request.refuse as i64,
        acked_epoch: ack.map_or(-1, |ack| ack.epoch),
        acked_seq: ack.map_or(0, |ack| ack.processed),
        acked_claimed: ack.map_or(0, |ack| ack.claimed),
        anchor_seq: ack.map_or(0, |ack| ack.anchor.0),
        anchor_id: ack.map_or(0, |ack| ack.anchor.1),
        forget_attempts: ack.is_some_and(|ack| ack.forget_attempts),
        most_messages: i64::from(request.limit),
        most_bytes: request.most_bytes,
        lease_us: request.lease_micros(),
        lease_ms: request.lease_millis(),
        asynchronous_commit: request.asynchronous_commit,
    };
    let statement = match ack {
        Some(_) => &ACKNOWLEDGE_AND_CLAIM,
        None => &CLAIM,
    };
    let rows = statement.query(conn, values).await?;
    let Some(first) = rows.first() else {
        return Ok(Claimed::busy());
    };
    let epoch = first.try_get_by::<Option<i64>, _>("lease_epoch")?;
    let processed: i64 = first.try_get_by("processed")?;
    let claimed_seq: i64 = first.try_get_by("claimed")?;
    let mut claimed = Claimed {
        free: true,
        acked: first.try_get_by("held")?,
        recovering: (claimed_seq > processed).then_some(claimed_seq),
        due_in: first.try_get_by("due_in_us")?,
        epoch: epoch.unwrap_or(-1),
        attempts: match first.try_get_by::<Option<i32>, _>("failures")? {
            None => None,
            Some(failures) => Some(Attempts {
                failures,
                deaths: first.try_get_by("deaths")?,
            }),
        },
        outermost: first
            .try_get_by::<Option<bool>, _>("outermost")?
            .unwrap_or(true),
        cut: false,
        row_version: None,
        rows: Vec::with_capacity(rows.len()),
    };
    let columns = MessageColumns::of(first)?;
    for row in &rows {
        if let Some(seq) = row.try_get_by::<Option<i64>, _>("seq")? {
            let done = row.try_get_by("done")?;
            let row = columns.read(row, seq)?;
            claimed.rows.push(RawRow { done, ..row });
        }
    }
    let last = first.try_get_by::<Option<i64>, _>("last_seq")?;
    claimed.cut = last > claimed.rows.last().map(|row| row.seq);
    if claimed.recovering.is_none() {
        claimed.row_version = Some(RowVersion {
            ctid: first.try_get_by("place")?,
            version: first.try_get_by("version")?,
            processed,
            lease: epoch.filter(|_| !claimed.rows.is_empty()),
        });
    }
    Ok(claimed)
}

/// What became of each request; `None` where it was not the usual case. Of each the rows are
/// connections up to the one that reaches its bytes: a window in the statement would cost every
/// message a tenth more. The next claim asks for no more than these.
pub(in crate::database) async fn claim_together(
    connections: &ConnectionCache,
    requests: &[QuickClaim],
    owner: &str,
    asynchronous_commit: bool,
) -> Result<Vec<Option<Claimed>>, DbErr> {
    let numbers = |of: fn(&QuickClaim) -> i64| -> Vec<i64> { requests.iter().map(of).collect() };
    let texts = |of: fn(&QuickClaim) -> &str| -> Vec<String> {
        requests
            .iter()
            .map(|request| of(request).to_owned())
            .collect()
    };
    let values = values! {
        partitions: numbers(|request| request.partition_id.get()),
        queues: numbers(|request| request.partition_id.queue().get()),
        consumers: texts(|request| &request.consumer),
        rows: texts(|request| &request.ctid),
        versions: texts(|request| &request.version),
        processed: numbers(|request| request.processed),
        epochs: numbers(|request| request.epoch.unwrap_or(-1)),
        most_messages: numbers(|request| request.limit.into()),
        leases_us: numbers(|request| request.lease_micros),
        anchor_seqs: numbers(|request| request.anchor.0),
        anchor_ids: numbers(|request| request.anchor.1),
        owner: owner,
        asynchronous_commit: asynchronous_commit,
    };
    let mut claims: Vec<Option<Claimed>> = requests.iter().map(|_| None).collect();
    let mut bytes = vec![0; requests.len()];
    let mut columns: Option<MessageColumns> = None;
    let each = |row: QueryResult| {
        let number: i64 = row.try_get_by("number")?;
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let (Some(claim), Some(request)) = (claims.get_mut(index), requests.get(index)) else {
            return Err(DbErr::RecordNotFound(format!("claim {number}")));
        };
        let epoch: i64 = row.try_get_by("lease_epoch")?;
        let seq: Option<i64> = row.try_get_by("seq")?;
        if claim.is_none() {
            *claim = Some(Claimed {
                free: true,
                acked: request.epoch.is_some(),
                epoch,
                row_version: Some(RowVersion {
                    ctid: row.try_get_by("place")?,
                    version: row.try_get_by("version")?,
                    processed: row.try_get_by("processed_seq")?,
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
            let row = match &columns {
                Some(columns) => columns.read(&row, seq)?,
                None => columns.insert(MessageColumns::of(&row)?).read(&row, seq)?,
            };
            let size = row.body.as_ref().map_or(0, |body| body.payload.len());
            bytes[index] += i64::try_from(size).unwrap_or(i64::MAX);
            claim.rows.push(row);
        }
        Ok(())
    };
    let statement = CLAIM_TOGETHER.bind(Engine::Postgres, values)?;
    connections.query_each(statement, each).await?;
    Ok(claims)
}
