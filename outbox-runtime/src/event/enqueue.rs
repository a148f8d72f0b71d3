//! Enqueues messages inside the caller's transaction.
//!
//! Everything is checked before anything is written. Nothing is looked up: the queue's id follows
//! from its name, and the slot follows from the key. A producer needs no running outbox, only the
//! tables.

use crate::database::enqueue::{self, NewRow};
use crate::event::error::{EnqueueError, EnqueueErrorKind};
use crate::event::key::MAX_KEY_LEN;
use crate::event::message::{NewMessage, OutboxMessageId};
use crate::event::unique::nonce;
use crate::queue::name::check_name;
use crate::queue::signal;
use crate::queue::{Queue, Slot};
use sea_orm::ConnectionTrait;

/// Enqueues one message that was made by hand. It is delivered if the surrounding transaction
/// commits.
///
/// One round trip on PostgreSQL, two on MySQL and SQLite.
///
/// ```
/// use outbox_runtime::{NewMessage, Partitions, Queue, enqueue};
/// use sea_orm::{ConnectionTrait, Database, TransactionTrait};
///
/// # async fn place(db: sea_orm::DatabaseConnection) -> Result<(), Box<dyn std::error::Error>> {
/// const ORDERS: Queue = Queue::of("orders", Partitions::of(4));
///
/// let tx = db.begin().await?;
/// let id = enqueue(&tx, &ORDERS, NewMessage::new("order.created", 7, r#"{"total":1999}"#)).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`EnqueueError`], which names the queue and the event type. After bad input nothing is written.
/// On a bare connection, MySQL and SQLite write body and queue entry in two transactions. An error
/// between them leaves a body that no message refers to; it is deleted after an hour.
pub async fn enqueue<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    message: NewMessage,
) -> Result<OutboxMessageId, EnqueueError> {
    write_one(conn, queue, prepare(queue, message)?).await
}

/// Enqueues many messages that were made by hand, in order. Returns their ids in the same order.
///
/// Every message is checked before any is written. On PostgreSQL this is one statement, for at most
/// 256 MiB.
///
/// # Errors
/// As for [`enqueue`]; [`EnqueueError::index`] says which message was at fault. On PostgreSQL
/// a list of more than 256 MiB is refused, before anything is written.
pub async fn enqueue_batch<C, I>(
    conn: &C,
    queue: &Queue,
    messages: I,
) -> Result<Vec<OutboxMessageId>, EnqueueError>
where
    C: ConnectionTrait,
    I: IntoIterator<Item = NewMessage>,
{
    let rows = prepare_all(queue, messages.into_iter().map(Ok))?;
    write_all(conn, queue, rows).await
}

/// Checks a message and turns it into the row to write.
pub(crate) fn prepare(queue: &Queue, message: NewMessage) -> Result<NewRow, EnqueueError> {
    check(queue, &message)
        .map_err(|kind| EnqueueError::new(queue.name(), &message.event_type, kind))
        .map(|(slot, headers)| NewRow {
            slot,
            nonce: nonce(),
            event_type: message.event_type,
            key: message.key,
            payload: message.payload,
            headers,
            target: None,
        })
}

/// Checks all messages, so that a bad message is found before a good one is written.
pub(crate) fn prepare_all(
    queue: &Queue,
    messages: impl Iterator<Item = Result<NewMessage, EnqueueError>>,
) -> Result<Vec<NewRow>, EnqueueError> {
    messages
        .enumerate()
        .map(|(index, message)| {
            message
                .and_then(|message| prepare(queue, message))
                .map_err(|error| error.at(index))
        })
        .collect()
}

pub(crate) async fn write_one<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    row: NewRow,
) -> Result<OutboxMessageId, EnqueueError> {
    let event_type = row.event_type.clone();
    match enqueue::insert_one(conn, queue.queue_id(), row).await {
        Ok(id) => {
            signal::send(queue.queue_id());
            Ok(id.into())
        }
        Err(error) => Err(EnqueueError::database(queue.name(), &event_type, error)),
    }
}

pub(crate) async fn write_all<C: ConnectionTrait>(
    conn: &C,
    queue: &Queue,
    rows: Vec<NewRow>,
) -> Result<Vec<OutboxMessageId>, EnqueueError> {
    let Some(first) = rows.first() else {
        return Ok(Vec::new());
    };
    let event_type = first.event_type.clone();
    match enqueue::insert_all(conn, queue.queue_id(), rows).await {
        Ok(ids) => {
            signal::send(queue.queue_id());
            Ok(ids.into_iter().map(OutboxMessageId::from).collect())
        }
        Err(error) => Err(EnqueueError::database(queue.name(), &event_type, error)),
    }
}

/// The slot and the encoded headers of a message that may be written.
fn check(queue: &Queue, message: &NewMessage) -> Result<(Slot, Option<String>), EnqueueErrorKind> {
    check_name("an event type", &message.event_type).map_err(EnqueueErrorKind::InvalidName)?;
    if message.payload.len() > message.max_payload {
        return Err(EnqueueErrorKind::PayloadTooLarge {
            size: message.payload.len(),
            limit: message.max_payload,
        });
    }
    if message.key.len() > MAX_KEY_LEN {
        return Err(EnqueueErrorKind::KeyTooLong {
            size: message.key.len(),
            limit: MAX_KEY_LEN,
        });
    }
    let headers = message
        .options
        .headers
        .encode()
        .map_err(EnqueueErrorKind::InvalidHeader)?;
    let partitions = queue.partitions().count();
    let slot = match message.partition {
        None => Slot::of_key(&message.key),
        Some(partition) if partition < partitions => Slot::of_partition(partition),
        Some(partition) => {
            return Err(EnqueueErrorKind::PartitionOutOfRange {
                partition,
                partitions,
            });
        }
    };
    Ok((slot, headers))
}
