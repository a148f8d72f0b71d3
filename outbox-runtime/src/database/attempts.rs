//! Records of messages that did not simply succeed: `outbox_attempt`.
//!
//! A record counts `failures` (the handler returned an error) and `deaths` (it never returned), or
//! says that a message is `done` although the cursor is behind it. It is deleted when the cursor
//! has passed. Changes are relative to what the record says, so that two processes that change it,
//! one after it lost its lease, do not undo each other's counts.

use super::cursor::micros;
use super::statement::{Run, and, statements, values};
use crate::queue::PartitionId;
use sea_orm::{ConnectionTrait, DbErr};
use std::time::Duration;

/// What a record counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Attempts {
    /// How often the handler returned an error.
    pub(crate) failures: i32,
    /// How often it never returned.
    pub(crate) deaths: i32,
}

impl Attempts {
    pub(crate) fn total(self) -> i32 {
        self.failures.saturating_add(self.deaths)
    }
}

/// A change of one message's record.
#[derive(Debug)]
pub(crate) struct AttemptNote {
    pub(crate) seq: i64,
    pub(crate) change: AttemptChange,
}

#[derive(Debug)]
pub(crate) enum AttemptChange {
    /// A death, counted before the handler runs: should it kill the process, it is on record.
    Charged,
    /// The charge is taken back: the handler did not run, or the process lives.
    TakenBack,
    /// The handler failed.
    Failed {
        /// Whether a death was charged for this attempt, which it was not.
        charged: bool,
        /// How long until the next attempt.
        delay: Duration,
        reason: String,
    },
}

statements! { EVERY;
    CHARGE = file "shared/charge.sql";
    CHARGE_HELD = file "shared/charge_held.sql";
    RECORD_FAILURE = file "shared/record_failure.sql";
    TAKE_BACK = "UPDATE outbox_attempt SET deaths = deaths - 1 \
        WHERE partition_id = $partition AND consumer = $consumer AND seq = $seq AND deaths > 0";
    FORGET_IF_EMPTY = "DELETE FROM outbox_attempt \
        WHERE partition_id = $partition AND consumer = $consumer AND seq = $seq \
            AND failures = 0 AND deaths = 0 AND NOT done";
    MARK_DONE = file "shared/mark_done.sql";
    FORGET_THESE = "DELETE FROM outbox_attempt \
        WHERE partition_id = $partition AND consumer = $consumer AND seq IN ({numbers})";
    FORGET_PASSED = "DELETE FROM outbox_attempt \
        WHERE partition_id = $partition AND consumer = $consumer AND seq <= $upto";
    LAST_ERROR = "SELECT last_error FROM outbox_attempt \
        WHERE partition_id = $partition AND consumer = $consumer AND seq = $seq";
}

/// Writes a change, for the process that holds the lease.
pub(crate) async fn write<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    note: &AttemptNote,
) -> Result<(), DbErr> {
    let message = values! { partition: partition_id, consumer: consumer, seq: note.seq };
    match &note.change {
        AttemptChange::Charged => CHARGE_HELD.execute(conn, message).await.map(drop),
        AttemptChange::TakenBack => take_back(conn, partition_id, consumer, note.seq).await,
        AttemptChange::Failed {
            charged,
            delay,
            reason,
        } => {
            let failure = values! {
                charged: i32::from(*charged),
                delay_us: micros(*delay),
                reason: reason.as_str(),
            };
            let values = and(message, failure);
            RECORD_FAILURE.execute(conn, values).await.map(drop)
        }
    }
}

/// Counts a death before the handler runs, in a statement of its own that must be committed before
/// that. False if the lease was lost: then nothing is written.
pub(crate) async fn charge<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    (owner, epoch): (&str, i64),
    seq: i64,
) -> Result<bool, DbErr> {
    let values = values! {
        partition: partition_id,
        consumer: consumer,
        seq: seq,
        owner: owner,
        epoch: epoch,
    };
    Ok(CHARGE.execute(conn, values).await? > 0)
}

/// Takes a charge back: the process lives. It needs no lease, because it only says what this
/// process knows of itself. A record that counts nothing any more is deleted.
pub(crate) async fn take_back<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seq: i64,
) -> Result<(), DbErr> {
    let message = || values! { partition: partition_id, consumer: consumer, seq: seq };
    TAKE_BACK.execute(conn, message()).await?;
    FORGET_IF_EMPTY.execute(conn, message()).await?;
    Ok(())
}

/// Remembers that messages are done although one before them is not.
pub(super) async fn mark_done<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seqs: &[i64],
) -> Result<(), DbErr> {
    let whose = || values! { partition: partition_id, consumer: consumer };
    let seqs = || seqs.iter().copied();
    FORGET_THESE
        .with_numbers(seqs())
        .execute(conn, whose())
        .await?;
    MARK_DONE
        .with_numbers(seqs())
        .execute(conn, whose())
        .await?;
    Ok(())
}

/// Deletes the records that the cursor has passed.
pub(super) async fn forget<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    upto: i64,
) -> Result<(), DbErr> {
    let values = values! { partition: partition_id, consumer: consumer, upto: upto };
    FORGET_PASSED.execute(conn, values).await.map(drop)
}

/// Why a message failed the last time, if a handler ever said.
pub(crate) async fn last_error<C: ConnectionTrait>(
    conn: &C,
    partition_id: PartitionId,
    consumer: &str,
    seq: i64,
) -> Result<Option<String>, DbErr> {
    let values = values! { partition: partition_id, consumer: consumer, seq: seq };
    let row = LAST_ERROR.first(conn, values).await?;
    let error = row.map(|row| row.try_get_by("last_error"));
    Ok(error.transpose()?.flatten())
}
