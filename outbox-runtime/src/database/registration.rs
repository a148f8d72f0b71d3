//! Registering queues, partitions and consumers, at start.
//!
//! Everything here may be repeated, and may run in many processes at once. What is there is only
//! read. What is missing is inserted, and then read back under the row lock of the queue.

use super::statement::{Run, statements, values};
use super::transaction::begin;
use crate::queue::{Queue, QueueId};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, QueryResult};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

statements! { EVERY;
    KNOWN_QUEUE = "SELECT q.name, q.partitions, (SELECT COUNT(*) FROM outbox_partition p \
            WHERE p.id BETWEEN $first AND $last) AS known_partitions \
        FROM outbox_queue q WHERE q.id = $queue";
    KNOWN_QUEUES = "SELECT id, name, partitions FROM outbox_queue WHERE id IN ({numbers})";
    INSERT_QUEUE = "INSERT INTO outbox_queue (id, name, partitions, created_at) \
        VALUES ($queue, $name, $partitions, {now}) {or_ignore id}";
    LOCK_QUEUE = "SELECT name, partitions FROM outbox_queue WHERE id = $queue {for_update}";
    INSERT_PARTITIONS = "INSERT INTO outbox_partition (id, queue_id, number) VALUES {rows} \
        {or_ignore id}";
    CONSUMERS = "SELECT name, mode, event_types FROM outbox_consumer WHERE queue_id = $queue";
    STORED_CONSUMER = "SELECT event_types, {now_us} - {us seen_at} AS silent_us \
        FROM outbox_consumer WHERE queue_id = $queue AND name = $name";
    INSERT_CONSUMER = "INSERT INTO outbox_consumer \
            (queue_id, name, mode, event_types, created_at, seen_at) \
        VALUES ($queue, $name, $mode, $event_types, {now}, {now})";
    ADD_TYPES = "UPDATE outbox_consumer SET event_types = $event_types \
        WHERE queue_id = $queue AND name = $name";
    ADD_TYPES_AND_SEEN = "UPDATE outbox_consumer SET event_types = $event_types, seen_at = {now} \
        WHERE queue_id = $queue AND name = $name";
    SEEN = "UPDATE outbox_consumer SET seen_at = {now} \
        WHERE queue_id = $queue AND name = $name AND event_types = $event_types";
    START_AT_THE_NEWEST = file "shared/create_cursors.sql", { start: "p.sequence" };
    START_AT_THE_OLDEST = file "shared/create_cursors.sql", {
        start: "COALESCE((SELECT MIN(o.seq) - 1 FROM outbox_outgoing o \
            WHERE o.partition_id = p.id), p.sequence)"
    };
    DELETE_CONSUMER = "DELETE FROM outbox_consumer WHERE queue_id = $queue AND name = $name";
    DELETE_CURSORS = "DELETE FROM outbox_cursor \
        WHERE partition_id BETWEEN $first AND $last AND consumer = $name";
    DELETE_ATTEMPTS = "DELETE FROM outbox_attempt \
        WHERE partition_id BETWEEN $first AND $last AND consumer = $name";
    PAUSE = "UPDATE outbox_queue SET paused = TRUE WHERE id = $queue";
    RESUME = "UPDATE outbox_queue SET paused = FALSE WHERE id = $queue";
}

/// Why a queue cannot be registered.
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

/// Registers a queue with its partitions. If they are there, that takes one read.
pub(crate) async fn queue(
    db: &DatabaseConnection,
    queue: &Queue,
) -> Result<Result<(), QueueConflict>, DbErr> {
    let id = queue.queue_id();
    let count = queue.partitions().count();
    let partitions = values! {
        queue: id,
        first: id,
        last: id.partition(count - 1),
    };
    if let Some(row) = KNOWN_QUEUE.first(db, partitions).await? {
        if let Err(conflict) = same_queue(&row, queue)? {
            return Ok(Err(conflict));
        }
        if row.try_get_by::<i64, _>("known_partitions")? == i64::from(count) {
            return Ok(Ok(()));
        }
    }
    let tx = begin(db).await?;
    let new = values! { queue: id, name: queue.name(), partitions: count };
    INSERT_QUEUE.execute(&tx, new).await?;
    // The lock makes processes that start at once take turns.
    let row = LOCK_QUEUE.first(&tx, values! { queue: id }).await?;
    let row = row.ok_or(DbErr::RecordNotInserted)?;
    if let Err(conflict) = same_queue(&row, queue)? {
        return Ok(Err(conflict));
    }
    let rows = (0..count).map(|number| format!("({},{id},{number})", id.partition(number)));
    let rows = rows.collect::<Vec<String>>().join(",");
    INSERT_PARTITIONS
        .with("{rows}", rows)
        .execute(&tx, values! {})
        .await?;
    tx.commit().await?;
    Ok(Ok(()))
}

/// Which of these queues could not be registered, and why. Nothing is written.
pub(crate) async fn conflicts<'q>(
    db: &DatabaseConnection,
    queues: &'q [Queue],
) -> Result<Vec<(&'q Queue, QueueConflict)>, DbErr> {
    if queues.is_empty() {
        return Ok(Vec::new());
    }
    let known = KNOWN_QUEUES.with_numbers(queues.iter().map(Queue::queue_id));
    let mut found = Vec::new();
    for row in known.query(db, values! {}).await? {
        let id: QueueId = row.try_get_by("id")?;
        for queue in queues.iter().filter(|queue| queue.queue_id() == id) {
            if let Err(conflict) = same_queue(&row, queue)? {
                found.push((queue, conflict));
            }
        }
    }
    Ok(found)
}

/// Whether a row is of the queue that we mean.
fn same_queue(row: &QueryResult, queue: &Queue) -> Result<Result<(), QueueConflict>, DbErr> {
    let other: String = row.try_get_by("name")?;
    let found: i16 = row.try_get_by("partitions")?;
    if other != queue.name() {
        return Ok(Err(QueueConflict::Collision { other }));
    }
    if i64::from(found) != i64::from(queue.partitions().count()) {
        let found = found.unsigned_abs().into();
        return Ok(Err(QueueConflict::Partitions { found }));
    }
    Ok(Ok(()))
}

/// Registers a consumer of a registered queue. The first consumer of a queue gets everything, because
/// nothing is deleted without a consumer. A later one starts where each partition is now, or at the
/// oldest message that is still there. A consumer that is registered with all its types gets a
/// heartbeat, and nothing is locked for it.
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
            // A heartbeat is of a process that handles all types.
            if known.event_types == *consumer.event_types {
                let present = Present::new(queue.queue_id(), consumer.name, consumer.event_types);
                seen(db, &present).await?;
            }
            return Ok(Ok(()));
        }
    }
    let tx = begin(db).await?;
    // Under the queue's lock no sequencer moves.
    LOCK_QUEUE
        .first(&tx, values! { queue: queue.queue_id() })
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
                &ADD_TYPES_AND_SEEN
            } else {
                &ADD_TYPES
            };
            let values = values! {
                event_types: types_text(&types),
                queue: queue.queue_id(),
                name: consumer.name,
            };
            update.execute(&tx, values).await?;
        }
        None => {
            let values = values! {
                queue: queue.queue_id(),
                name: consumer.name,
                mode: consumer.mode,
                event_types: types_text(&types),
            };
            INSERT_CONSUMER.execute(&tx, values).await?;
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
    let rows = CONSUMERS.query(conn, values! { queue: queue.queue_id() });
    rows.await?
        .iter()
        .map(|row| {
            let types: String = row.try_get_by("event_types")?;
            let known = KnownConsumer {
                mode: row.try_get_by("mode")?,
                event_types: serde_json::from_str(&types).unwrap_or_default(),
            };
            Ok((row.try_get_by("name")?, known))
        })
        .collect()
}

/// What the database knows of a consumer.
pub(crate) struct StoredConsumer {
    /// Every type any version of it ever handled; `*` stands for all.
    pub(crate) event_types: BTreeSet<String>,
    /// How long there was no heartbeat of a process that handles all of them.
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
    let values = values! { queue: queue_id, name: name };
    let row = STORED_CONSUMER.first(conn, values).await?;
    let row = row.ok_or_else(|| {
        DbErr::RecordNotFound(format!("consumer `{name}` is not registered any more"))
    })?;
    let types: String = row.try_get_by("event_types")?;
    let silent: i64 = row.try_get_by("silent_us")?;
    Ok(StoredConsumer {
        event_types: serde_json::from_str(&types).unwrap_or_default(),
        silent_for: Duration::from_micros(silent.max(0).unsigned_abs()),
    })
}

/// A consumer that this process serves, and the types it handles: what a heartbeat says.
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

/// Writes a heartbeat: a process handles every type of this consumer. If more types were registered
/// meanwhile, it changes nothing.
pub(crate) async fn seen(db: &DatabaseConnection, present: &Present) -> Result<(), DbErr> {
    let values = values! {
        queue: present.queue_id,
        name: &*present.name,
        event_types: present.types(),
    };
    SEEN.execute(db, values).await.map(drop)
}

/// As the database keeps them: sorted, so that equal sets are equal texts.
fn types_text(event_types: &BTreeSet<String>) -> String {
    serde_json::Value::from_iter(event_types.iter().map(String::as_str)).to_string()
}

/// Removes a consumer, its cursors and its records of attempts.
/// Returns whether there was one.
pub(crate) async fn remove_consumer(
    db: &DatabaseConnection,
    queue_id: QueueId,
    name: &str,
) -> Result<bool, DbErr> {
    let tx = begin(db).await?;
    let values = values! { queue: queue_id, name: name };
    let found = DELETE_CONSUMER.execute(&tx, values).await?;
    for delete in [&DELETE_CURSORS, &DELETE_ATTEMPTS] {
        let values = values! {
            first: queue_id,
            last: queue_id.last_partition(),
            name: name,
        };
        delete.execute(&tx, values).await?;
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
    let set = if paused { &PAUSE } else { &RESUME };
    Ok(set.execute(db, values! { queue: queue_id }).await? > 0)
}

async fn create_cursors(
    tx: &DatabaseTransaction,
    queue: &Queue,
    consumer: &NewConsumer<'_>,
    first: bool,
) -> Result<(), DbErr> {
    let insert = match first || consumer.from_earliest {
        true => &START_AT_THE_OLDEST,
        false => &START_AT_THE_NEWEST,
    };
    let values = values! {
        name: consumer.name,
        first: queue.queue_id(),
        last: queue.queue_id().last_partition(),
    };
    insert.execute(tx, values).await.map(drop)
}
