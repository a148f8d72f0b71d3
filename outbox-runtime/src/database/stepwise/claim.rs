//! Claiming in two steps: read, then one UPDATE that acknowledges and claims, provided that the
//! cursor is still as it was read.

use crate::database::attempts::{self, Attempts};
use crate::database::connection_cache::ConnectionCache;
use crate::database::cursor::{
    Ack, ClaimRequest, Claimed, MessageColumns, QuickClaim, RawRow, Refuse,
};
use crate::database::statement::{Run, and, statements, values};
use sea_orm::{ConnectionTrait, DbErr, QueryResult, StreamTrait};

statements! { STEPWISE;
    READ_TO_CLAIM = file "read_to_claim.sql";
    CLAIM = file "claim.sql", {
        lease: "lease_epoch = lease_epoch + 1, lease_owner = $owner, \
            lease_until = {after $lease_us}, lease_ms = $lease_ms"
    };
    ACKNOWLEDGE_ONLY = file "claim.sql", { lease: "lease_owner = NULL, lease_until = NULL" };
}

pub(in crate::database) async fn claim<C: ConnectionTrait + StreamTrait>(
    conn: &C,
    request: &ClaimRequest<'_>,
) -> Result<Claimed, DbErr> {
    let Some(read) = Read::of(conn, request).await? else {
        return Ok(Claimed::busy());
    };
    if !read.is_free() {
        return Ok(Claimed::busy());
    }
    let mut found = read.to_claim()?;
    let last = found.rows.last().map(|row| row.seq);
    if last.is_none() && !read.held {
        return Ok(found);
    }
    if !read.write(conn, last).await? {
        return Ok(Claimed::busy());
    }
    if last.is_some() {
        found.epoch = read.epoch + 1;
    }
    if let Some(ack) = read.counting_ack().filter(|ack| ack.forget_attempts) {
        let (partition_id, consumer) = (request.partition_id, request.consumer);
        attempts::forget(conn, partition_id, consumer, ack.processed).await?;
    }
    Ok(found)
}

pub(in crate::database) const CAN_CLAIM_TOGETHER: bool = false;

/// None of them is answered: each is asked for by itself.
pub(in crate::database) async fn claim_together(
    _: &ConnectionCache,
    requests: &[QuickClaim],
    _: &str,
    _: bool,
) -> Result<Vec<Option<Claimed>>, DbErr> {
    Ok(requests.iter().map(|_| None).collect())
}

/// A cursor and what comes behind it, as they were read.
struct Read<'r> {
    request: &'r ClaimRequest<'r>,
    /// The cursor, with a message each; at least one.
    rows: Vec<QueryResult>,
    /// Whether there are more messages than their bytes allow.
    cut: bool,
    processed: i64,
    claimed: i64,
    epoch: i64,
    /// Whether the lease is ours.
    ours: bool,
    /// Whether it is the lease of the claim that is to be acknowledged.
    held: bool,
    now_us: i64,
    lease_until_us: Option<i64>,
    /// Whether the anchor still has its sequence number.
    anchored: bool,
}

impl<'r> Read<'r> {
    /// `None` if there is no such cursor.
    async fn of<C: ConnectionTrait + StreamTrait>(
        conn: &C,
        request: &'r ClaimRequest<'r>,
    ) -> Result<Option<Self>, DbErr> {
        let ack = request.ack.as_ref();
        let acked_epoch = ack.map_or(-1, |ack| ack.epoch);
        let values = values! {
            partition: request.partition_id,
            queue: request.partition_id.queue(),
            consumer: request.consumer,
            owner: request.owner,
            acked_epoch: acked_epoch,
            acked_seq: ack.map_or(0, |ack| ack.processed),
            anchor_seq: ack.map_or(0, |ack| ack.anchor.0),
            anchor_id: ack.map_or(0, |ack| ack.anchor.1),
            most_messages: request.limit,
        };
        let read = READ_TO_CLAIM.query_up_to(conn, values, request.most_bytes);
        let (rows, cut) = read.await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let owner: Option<String> = first.try_get_by("lease_owner")?;
        let ours = owner.as_deref() == Some(request.owner);
        let epoch = first.try_get_by("lease_epoch")?;
        Ok(Some(Self {
            request,
            cut,
            processed: first.try_get_by("processed_seq")?,
            claimed: first.try_get_by("claimed_seq")?,
            epoch,
            ours,
            held: ours && epoch == acked_epoch,
            now_us: first.try_get_by("now_us")?,
            lease_until_us: first.try_get_by("lease_until_us")?,
            anchored: first.try_get_by::<i32, _>("anchored")? == 1,
            rows,
        }))
    }

    /// Whether the lease is over or ours, and an acknowledgement of it may count. If the anchor has
    /// lost its sequence number, what was read begins behind an acknowledgement that does not count.
    fn is_free(&self) -> bool {
        let over = self.lease_until_us.is_none_or(|until| until <= self.now_us);
        (self.ours || over) && (!self.held || self.anchored)
    }

    /// The acknowledgement, if it counts.
    fn counting_ack(&self) -> Option<&Ack> {
        self.request.ack.as_ref().filter(|_| self.held)
    }

    /// What is done and what is claimed, after the acknowledgement.
    fn after_ack(&self) -> (i64, i64) {
        let read = (self.processed, self.claimed);
        self.counting_ack()
            .map_or(read, |ack| (ack.processed, ack.claimed))
    }

    /// The messages to claim, and what is known of the first.
    fn to_claim(&self) -> Result<Claimed, DbErr> {
        let first = &self.rows[0];
        let (processed, claimed) = self.after_ack();
        let attempts = attempts_of(first)?;
        let due: Option<i64> = first.try_get_by("due_us")?;
        let due_in = attempts.and(due).map(|due| due - self.now_us);
        let recovering = (claimed > processed).then_some(claimed);
        let refused = recovering.is_some()
            && match self.request.refuse {
                Refuse::None => false,
                Refuse::ChargedSuspect => attempts.is_some_and(|attempts| attempts.deaths > 0),
                Refuse::Suspect => true,
            };
        let wanted = self.request.limit > 0 && !refused && due_in.is_none_or(|due_in| due_in <= 0);
        let most = match wanted {
            false => 0,
            true if attempts.is_some() || recovering.is_some() => 1,
            true => self.rows.len(),
        };
        let rows = self.messages(most)?;
        Ok(Claimed {
            free: true,
            acked: self.held,
            recovering,
            due_in,
            epoch: self.epoch,
            attempts,
            outermost: true,
            cut: self.cut && rows.len() == self.rows.len(),
            row_version: None,
            rows,
        })
    }

    /// Up to so many messages, and up to the next one that failed: that one goes alone.
    fn messages(&self, most: usize) -> Result<Vec<RawRow>, DbErr> {
        let columns = MessageColumns::of(&self.rows[0])?;
        let mut messages = Vec::with_capacity(most);
        for row in self.rows.iter().take(most) {
            if !messages.is_empty() && attempts_of(row)?.is_some() {
                break;
            }
            if let Some(seq) = row.try_get_by::<Option<i64>, _>("seq")? {
                let done = is_done(row)?;
                let message = columns.read(row, seq)?;
                messages.push(RawRow { done, ..message });
            }
        }
        Ok(messages)
    }

    /// Acknowledges, and claims up to `last` if there is one. False if the cursor has changed.
    async fn write<C: ConnectionTrait>(&self, conn: &C, last: Option<i64>) -> Result<bool, DbErr> {
        let request = self.request;
        let (processed, claimed) = self.after_ack();
        let values = values! {
            partition: request.partition_id,
            consumer: request.consumer,
            owner: request.owner,
            processed: processed,
            claimed: claimed.max(processed).max(last.unwrap_or(0)),
            read_epoch: self.epoch,
            read_processed: self.processed,
        };
        let written = match last {
            Some(_) => {
                let lease = values! {
                    lease_us: request.lease_micros(),
                    lease_ms: request.lease_millis(),
                };
                CLAIM.execute(conn, and(values, lease)).await?
            }
            None => ACKNOWLEDGE_ONLY.execute(conn, values).await?,
        };
        Ok(written > 0)
    }
}

fn is_done(row: &QueryResult) -> Result<bool, DbErr> {
    let done: Option<bool> = row.try_get_by("done")?;
    Ok(done == Some(true))
}

/// What is on record of a row's message, unless it is done.
fn attempts_of(row: &QueryResult) -> Result<Option<Attempts>, DbErr> {
    match row.try_get_by::<Option<i32>, _>("failures")? {
        Some(failures) if !is_done(row)? => Ok(Some(Attempts {
            failures,
            deaths: row.try_get_by("deaths")?,
        })),
        _ => Ok(None),
    }
}
