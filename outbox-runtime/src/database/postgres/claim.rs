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
    of_rows(&statement.query(conn, values).await?)
}

/// What a claim found; no rows if the cursor is locked, or not free.
fn of_rows(rows: &[QueryResult]) -> Result<Claimed, DbErr> {
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
    for row in rows {
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

/// The answer to each request; `None` where it was not the usual case.
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
    let mut answers = Answers::to(requests);
    let statement = CLAIM_TOGETHER.bind(Engine::Postgres, values)?;
    connections
        .query_each(statement, |row| answers.add(&row))
        .await?;
    Ok(answers.claims)
}

/// The answers to requests, row by row. Of each request the rows are kept up to the one that reaches
/// its bytes. To do that in the statement would cost every message a tenth more. The next claim asks
/// for no more than these.
struct Answers<'r> {
    requests: &'r [QuickClaim],
    claims: Vec<Option<Claimed>>,
    /// Of the payloads of each.
    bytes: Vec<i64>,
    /// Found in the first row that has a message.
    columns: Option<MessageColumns>,
}

impl<'r> Answers<'r> {
    fn to(requests: &'r [QuickClaim]) -> Self {
        Self {
            requests,
            claims: requests.iter().map(|_| None).collect(),
            bytes: vec![0; requests.len()],
            columns: None,
        }
    }

    fn add(&mut self, row: &QueryResult) -> Result<(), DbErr> {
        let number: i64 = row.try_get_by("number")?;
        let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let (Some(claim), Some(request)) = (self.claims.get_mut(index), self.requests.get(index))
        else {
            return Err(DbErr::RecordNotFound(format!("claim {number}")));
        };
        let seq: Option<i64> = row.try_get_by("seq")?;
        let claim = match claim {
            Some(claim) => claim,
            None => claim.insert(claimed(row, request, seq)?),
        };
        let Some(seq) = seq else {
            return Ok(());
        };
        if self.bytes[index] >= request.most_bytes {
            claim.cut = true;
            return Ok(());
        }
        let row = match &self.columns {
            Some(columns) => columns.read(row, seq)?,
            None => self
                .columns
                .insert(MessageColumns::of(row)?)
                .read(row, seq)?,
        };
        let size = row.body.as_ref().map_or(0, |body| body.payload.len());
        self.bytes[index] += i64::try_from(size).unwrap_or(i64::MAX);
        claim.rows.push(row);
        Ok(())
    }
}

/// A claim as its first row has it, without messages.
fn claimed(row: &QueryResult, request: &QuickClaim, seq: Option<i64>) -> Result<Claimed, DbErr> {
    let epoch: i64 = row.try_get_by("lease_epoch")?;
    Ok(Claimed {
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
    })
}
