//! The state of an outbox, for dashboards and for people.

use crate::database::stats::{self, CursorRow, FailureRow};
use crate::event::message::OutboxMessageId;
use crate::queue::{PartitionId, QueueId, Slot};
use sea_orm::{DatabaseConnection, DbErr};
use std::fmt;
use std::time::Duration;

/// How many failing messages are listed.
const FAILURES: u32 = 100;

/// The state of everything in the database, all processes together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutboxStats {
    /// The queues the database knows, by name.
    pub queues: Vec<QueueStats>,
    /// Messages of queues that no process registered, or of partitions that their queue does not
    /// have. They are kept.
    pub unregistered: Vec<UnregisteredMessages>,
}

/// A queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueStats {
    /// Its name.
    pub name: String,
    /// Whether delivery is paused.
    pub paused: bool,
    /// Messages that are committed and not yet sequenced.
    pub incoming: u64,
    /// Its consumers, by name.
    pub consumers: Vec<ConsumerStats>,
}

/// A consumer of a queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsumerStats {
    /// Its name.
    pub name: String,
    /// `leased` or `transactional`.
    pub mode: String,
    /// Messages that it has not handled yet, in all partitions.
    pub lag: u64,
    /// How long ago the last heartbeat was of a process that handles all its event types. A
    /// consumer that no process serves keeps delivered messages from being deleted.
    pub silent_for: Duration,
    /// Its partitions, by number.
    pub partitions: Vec<PartitionStats>,
    /// Messages that failed and will be tried again, soonest first; at most 100 of all consumers
    /// together.
    pub failing: Vec<FailingMessage>,
}

/// How far a consumer is in a partition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The partition's number.
    pub number: u32,
    /// The highest sequence number of a message.
    pub sequence: i64,
    /// The sequence number up to which everything is handled.
    pub processed: i64,
    /// How many messages are between the two.
    pub lag: u64,
    /// The process that works on it.
    pub lease_owner: Option<String>,
    /// How long its lease is still valid; zero if it is over.
    pub lease_left: Option<Duration>,
}

/// A message that failed and will be tried again.
#[derive(Clone)]
#[non_exhaustive]
pub struct FailingMessage {
    /// Its partition.
    pub partition: u32,
    /// Its id.
    pub id: OutboxMessageId,
    /// Its event type.
    pub event_type: String,
    /// The bytes of its key.
    pub key: Vec<u8>,
    /// How many attempts failed, or are running in quarantine.
    pub attempts: u32,
    /// When it is tried again; zero if it is due.
    pub due_in: Duration,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// Whether it is the first message that is not handled. Its partition waits for it: at once, or
    /// when the window is full if many keys are worked on at a time.
    pub blocking: bool,
}

/// Messages that no sequencer numbers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnregisteredMessages {
    /// The id of their queue: [`queue_id`](crate::queue_id) of its name.
    pub queue_id: i64,
    /// The partition that was chosen for them by hand, if there was one.
    pub partition: Option<u32>,
    /// How many there are.
    pub count: u64,
}

/// Keys may be secrets, so they are not shown.
impl fmt::Debug for FailingMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailingMessage")
            .field("partition", &self.partition)
            .field("id", &self.id.get())
            .field("event_type", &self.event_type)
            .field("attempts", &self.attempts)
            .field("due_in", &self.due_in)
            .field("reason", &self.reason)
            .field("blocking", &self.blocking)
            .finish_non_exhaustive()
    }
}

/// Reads everything.
pub(crate) async fn read(db: &DatabaseConnection) -> Result<OutboxStats, DbErr> {
    let queues = stats::queues(db).await?;
    let cursors = stats::cursors(db).await?;
    let failures = stats::failures(db, FAILURES).await?;
    let unregistered = stats::unowned(db).await?;
    Ok(OutboxStats {
        queues: queues
            .into_iter()
            .map(|queue| QueueStats {
                consumers: consumers(queue.id, &cursors, &failures),
                name: queue.name,
                paused: queue.paused,
                incoming: count(queue.incoming),
            })
            .collect(),
        unregistered: unregistered
            .into_iter()
            .map(|row| UnregisteredMessages {
                queue_id: row.queue_id.get(),
                partition: row
                    .slot
                    .and_then(|slot| Slot::from_stored(slot).chosen_partition()),
                count: count(row.rows),
            })
            .collect(),
    })
}

fn consumers(
    queue_id: QueueId,
    cursors: &[CursorRow],
    failures: &[FailureRow],
) -> Vec<ConsumerStats> {
    let mut consumers: Vec<ConsumerStats> = Vec::new();
    let of_queue = |partition_id: PartitionId| partition_id.queue() == queue_id;
    for cursor in cursors.iter().filter(|c| of_queue(c.partition_id)) {
        // The rows of a consumer are next to each other.
        if consumers
            .last()
            .is_none_or(|last| last.name != cursor.consumer)
        {
            consumers.push(ConsumerStats {
                name: cursor.consumer.clone(),
                mode: cursor.mode.clone(),
                lag: 0,
                silent_for: duration(cursor.silent_us),
                partitions: Vec::new(),
                failing: failures
                    .iter()
                    .filter(|f| of_queue(f.partition_id) && f.consumer == cursor.consumer)
                    .map(failing)
                    .collect(),
            });
        }
        if let Some(consumer) = consumers.last_mut() {
            let lag = count(cursor.sequence - cursor.processed);
            consumer.lag += lag;
            consumer.partitions.push(PartitionStats {
                number: cursor.partition_id.number(),
                sequence: cursor.sequence,
                processed: cursor.processed,
                lag,
                lease_owner: cursor.lease_owner.clone(),
                lease_left: cursor.lease_left_us.map(duration),
            });
        }
    }
    consumers
}

fn failing(row: &FailureRow) -> FailingMessage {
    FailingMessage {
        partition: row.partition_id.number(),
        id: row.id.into(),
        event_type: row.event_type.clone(),
        key: row.key.clone(),
        attempts: row.attempts.total().unsigned_abs(),
        due_in: duration(row.due_us),
        reason: row.reason.clone(),
        blocking: row.blocking,
    }
}

fn count(rows: i64) -> u64 {
    rows.max(0).unsigned_abs()
}

fn duration(micros: i64) -> Duration {
    Duration::from_micros(count(micros))
}
