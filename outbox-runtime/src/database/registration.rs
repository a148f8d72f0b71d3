//! Queues, partitions and consumers: made known to the database at start.
//!
//! Everything here may be repeated and may run in many processes at once. What is there
//! is only read, at every start but the first; what is missing is inserted, then read back
//! under the queue's row lock.

use super::sql::{execute, list, query};
use crate::database::dialect::{Dialect, transaction_options, values_list};
use crate::queue::{Queue, QueueId};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, QueryResult, TransactionTrait,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is in the way of registering a queue.
#[derive(Debug)]
pub(crate) enum QueueConflict {
    /// The queue is registered with another number of partitions.
    Partitions { found: u32 },
    /// Another queue has the same id.
    Collision { other: String },
}

/// The consumer is registered with another mode.
#[derive(Debug)]
pub(crate) struct ModeConflict {
    pub(crate) found: String,
}

/// A consumer to register.
pub(crate) struct NewConsumer<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: &'static str,
    pub(crate) event_types: &'a BTreeSet<String>,
    /// Whether it starts at the oldest message that is still there.
    pub(crate) from_earliest: bool,
}

/// Begins a transaction of our own.
pub(crate) async fn begin(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    db.begin_with_options(transaction_options(Dialect::of(db)?))
        .await
}

/// Registers a queue with its partitions. If they are there, that takes one read.
pub(crate) async fn queue(
    db: &DatabaseConnection,
    queue: &Queue,
) -> Result<Result<(), QueueConflict>, DbErr> {
    let count = queue.partitions().count();
    let known = query(
        db,
        "SELECT q.name, q.partitions, \
            (SELECT COUNT(*) FROM outbox_partition p WHERE p.id BETWEEN ? AND ?) \
         FROM outbox_queue q WHERE q.id = ?",
        [
            queue.queue_id().into(),
            (queue.queue_id().partition(count - 1)).into(),
            queue.queue_id().into(),
        ],
    )
    .await?;
    if let Some(row) = known.first() {
        if let Err(conflict) = same_queue(row, queue)? {
            return Ok(Err(conflict));
        }
        if row.try_get_by_index::<i64>(2)? == i64::from(count) {
            return Ok(Ok(()));
        }
    }
    let tx = begin(db).await?;
    execute(
        &tx,
        "INSERT INTO outbox_queue (id, name, partitions, created_at) VALUES (?, ?, ?, {now}) \
         {or_ignore(id)}",
        [queue.queue_id().into(), queue.name().into(), count.into()],
    )
    .await?;
    // The lock makes processes that start at once take turns.
    let rows = query(
        &tx,
        "SELECT name, partitions FROM outbox_queue WHERE id = ? {for_update}",
        [queue.queue_id().into()],
    )
    .await?;
    let row = rows.first().ok_or(DbErr::RecordNotInserted)?;
    if let Err(conflict) = same_queue(row, queue)? {
        return Ok(Err(conflict));
    }
    let insert = values_list(
        "INSERT INTO outbox_partition (id, queue_id, number) VALUES ",
        "(?, ?, ?)",
        count as usize,
    );
    let partitions = (0..count).flat_map(|number| {
        let id = queue.queue_id().partition(number);
        [id.into(), queue.queue_id().into(), number.into()]
    });
    execute(&tx, &(insert + " {or_ignore(id)}"), partitions).await?;
    tx.commit().await?;
    Ok(Ok(()))
}

/// What is in the way of these queues, of which some may not be registered; nothing is written.
pub(crate) async fn conflicts<'q>(
    db: &DatabaseConnection,
    queues: &'q [Queue],
) -> Result<Vec<(&'q Queue, QueueConflict)>, DbErr> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let ids = list(queues.iter().map(Queue::queue_id));
    let select = format!("SELECT name, partitions, id FROM outbox_queue WHERE id IN ({ids})");
    let mut found = Vec::new();
    for row in query(db, &select, []).await? {
        let id: QueueId = row.try_get_by_index(2)?;
        for queue in queues.iter().filter(|queue| queue.queue_id() == id) {
            if let Err(conflict) = same_queue(&row, queue)? {
                found.push((queue, conflict));
            }
        }
    }
    Ok(found)
}

/// Whether a row, which begins with name and partitions, is of the queue that we mean.
fn same_queue(row: &QueryResult, queue: &Queue) -> Result<Result<(), QueueConflict>, DbErr> {
    let (other, found): (String, i16) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
    if other != queue.name() {
        return Ok(Err(QueueConflict::Collision { other }));
    }
    if i64::from(found) != i64::from(queue.partitions().count()) {
        let found = found.unsigned_abs().into();
        return Ok(Err(QueueConflict::Partitions { found }));
    }
    Ok(Ok(()))
}

/// Registers a consumer of a registered queue. The first consumer of a queue
/// gets everything, for nothing is deleted without one; a later one starts where
/// each partition is now, or at what is still there. One that is known with all its
/// types is only noted as seen, and nothing is locked for it.
pub(crate) async fn consumer(
    db: &DatabaseConnection,
    queue: &Queue,
    consumer: &NewConsumer<'_>,
) -> Result<Result<(), ModeConflict>, DbErr> {
    if let Some(known) = consumers(db, queue).await?.remove(consumer.name) {
        if known.mode != consumer.mode {
            return Ok(Err(ModeConflict { found: known.mode }));
        }
        if known.event_types.is_superset(consumer.event_types) {
            // Only a process that handles everything counts as seen.
            if known.event_types == *consumer.event_types {
                let present = Present::new(queue.queue_id(), consumer.name, consumer.event_types);
                seen(db, &present).await?;
            }
            return Ok(Ok(()));
        }
    }
    let tx = begin(db).await?;
    // Under the queue's lock no sequencer moves.
    query(
        &tx,
        "SELECT id FROM outbox_queue WHERE id = ? {for_update}",
        [queue.queue_id().into()],
    )
    .await?;
    let known = consumers(&tx, queue).await?;
    let mut types = consumer.event_types.clone();
    match known.get(consumer.name) {
        Some(mine) if mine.mode != consumer.mode => {
            let found = mine.mode.clone();
            return Ok(Err(ModeConflict { found }));
        }
        Some(mine) => {
            types.extend(mine.event_types.iter().cloned());
            let update = if types == *consumer.event_types {
                "UPDATE outbox_consumer SET event_types = ?, seen_at = {now} \
                 WHERE queue_id = ? AND name = ?"
            } else {
                "UPDATE outbox_consumer SET event_types = ? WHERE queue_id = ? AND name = ?"
            };
            let types = types_text(&types);
            let values = [types.into(), queue.queue_id().into(), consumer.name.into()];
            execute(&tx, update, values).await?;
        }
        None => {
            execute(
                &tx,
                "INSERT INTO outbox_consumer (queue_id, name, mode, event_types, created_at, seen_at) \
                 VALUES (?, ?, ?, ?, {now}, {now})",
                [
                    queue.queue_id().into(),
                    consumer.name.into(),
                    consumer.mode.into(),
                    types_text(&types).into(),
                ],
            )
            .await?;
            create_cursors(&tx, queue, consumer, known.is_empty()).await?;
        }
    }
    tx.commit().await?;
    Ok(Ok(()))
}

struct KnownConsumer {
    mode: String,
    event_types: BTreeSet<String>,
}

/// The consumers of a queue, by name.
async fn consumers<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
) -> Result<BTreeMap<String, KnownConsumer>, DbErr> {
    let rows = query(
        conn,
        "SELECT name, mode, event_types FROM outbox_consumer WHERE queue_id = ?",
        [queue.queue_id().into()],
    );
    rows.await?
        .iter()
        .map(|row| {
            let types: String = row.try_get_by_index(2)?;
            let known = KnownConsumer {
                mode: row.try_get_by_index(1)?,
                event_types: serde_json::from_str(&types).unwrap_or_default(),
            };
            Ok((row.try_get_by_index(0)?, known))
        })
        .collect()
}

/// What the database knows of a consumer.
pub(crate) struct StoredConsumer {
    /// Every type any version of it ever handled; `*` stands for all.
    pub(crate) event_types: BTreeSet<String>,
    /// How long no process was seen that handles all of them.
    pub(crate) silent_for: Duration,
}

impl StoredConsumer {
    pub(crate) fn handles(&self, event_type: &str) -> bool {
        self.event_types.contains(event_type) || self.event_types.contains(ALL_TYPES)
    }
}

/// Stands for every event type.
const ALL_TYPES: &str = "*";

/// What is registered for a consumer that takes these types; `None` for all.
pub(crate) fn registered_types(event_types: Option<&BTreeSet<String>>) -> BTreeSet<String> {
    let all = || BTreeSet::from([ALL_TYPES.to_owned()]);
    event_types.cloned().unwrap_or_else(all)
}

/// Reads a consumer.
pub(crate) async fn stored_consumer<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    name: &str,
) -> Result<StoredConsumer, DbErr> {
    let rows = query(
        conn,
        "SELECT event_types, {now_us} - {us(seen_at)} FROM outbox_consumer \
         WHERE queue_id = ? AND name = ?",
        [queue_id.into(), name.into()],
    )
    .await?;
    let row = rows.first().ok_or_else(|| {
        DbErr::RecordNotFound(format!("consumer `{name}` is not registered any more"))
    })?;
    let types: String = row.try_get_by_index(0)?;
    let silent: i64 = row.try_get_by_index(1)?;
    Ok(StoredConsumer {
        event_types: serde_json::from_str(&types).unwrap_or_default(),
        silent_for: Duration::from_micros(silent.max(0).unsigned_abs()),
    })
}

/// A consumer that a process is there for, which handles these of its types.
pub(crate) struct Present {
    pub(crate) queue_id: QueueId,
    pub(crate) name: String,
    types: String,
}

impl Present {
    pub(crate) fn new(queue_id: QueueId, name: &str, event_types: &BTreeSet<String>) -> Self {
        Self {
            queue_id,
            name: name.to_owned(),
            types: types_text(event_types),
        }
    }

    /// As the database keeps them.
    pub(crate) fn types(&self) -> &str {
        &self.types
    }
}

/// Says that a process is there that handles every type of a consumer. A process
/// that knows fewer types than were registered meanwhile changes nothing.
pub(crate) async fn seen(db: &DatabaseConnection, present: &Present) -> Result<(), DbErr> {
    execute(
        db,
        "UPDATE outbox_consumer SET seen_at = {now} \
         WHERE queue_id = ? AND name = ? AND event_types = ?",
        [
            present.queue_id.into(),
            (&*present.name).into(),
            present.types().into(),
        ],
    )
    .await?;
    Ok(())
}

/// As the database keeps them: sorted, so that equal sets are equal texts.
fn types_text(event_types: &BTreeSet<String>) -> String {
    serde_json::Value::from_iter(event_types.iter().map(String::as_str)).to_string()
}

/// Forgets a consumer: its cursors, failed attempts, and that it exists.
/// Returns whether there was one.
pub(crate) async fn remove_consumer(
    db: &DatabaseConnection,
    queue_id: QueueId,
    name: &str,
) -> Result<bool, DbErr> {
    let tx = begin(db).await?;
    let values = || [queue_id.into(), name.into()];
    let found = execute(
        &tx,
        "DELETE FROM outbox_consumer WHERE queue_id = ? AND name = ?",
        values(),
    )
    .await?;
    for table in ["outbox_cursor", "outbox_attempt"] {
        let delete =
            format!("DELETE FROM {table} WHERE partition_id BETWEEN ? AND ? AND consumer = ?");
        let range = [
            queue_id.into(),
            queue_id.last_partition().into(),
            name.into(),
        ];
        execute(&tx, &delete, range).await?;
    }
    tx.commit().await?;
    Ok(found > 0)
}

/// Pauses or resumes a queue for every process.
pub(crate) async fn set_paused(
    db: &DatabaseConnection,
    queue_id: QueueId,
    paused: bool,
) -> Result<bool, DbErr> {
    let set = if paused {
        "UPDATE outbox_queue SET paused = TRUE WHERE id = ?"
    } else {
        "UPDATE outbox_queue SET paused = FALSE WHERE id = ?"
    };
    Ok(execute(db, set, [queue_id.into()]).await? > 0)
}

async fn create_cursors(
    tx: &DatabaseTransaction,
    queue: &Queue,
    consumer: &NewConsumer<'_>,
    first: bool,
) -> Result<(), DbErr> {
    let start = if first || consumer.from_earliest {
        "COALESCE((SELECT MIN(o.seq) - 1 FROM outbox_outgoing o WHERE o.partition_id = p.id), \
         p.sequence)"
    } else {
        "p.sequence"
    };
    let insert = format!(
        "INSERT INTO outbox_cursor (partition_id, consumer, processed_seq, claimed_seq) \
         SELECT p.id, ?, {start}, {start} FROM outbox_partition p WHERE p.id BETWEEN ? AND ?"
    );
    let values = [
        consumer.name.into(),
        queue.queue_id().into(),
        queue.queue_id().last_partition().into(),
    ];
    execute(tx, &insert, values).await?;
    Ok(())
}
