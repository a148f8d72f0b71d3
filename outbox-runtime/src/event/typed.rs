//! Typed events: what `#[outbox_event]` implements and calls.
//!
//! The functions here encode at once and return a future that only talks to the database. The
//! future borrows neither event nor key, and is `Send` whatever they are. It is boxed so that its
//! type does not name the type of the key. Without that the compiler reports a wrong key three
//! times: at the argument, at the call, and at the `.await`.

use crate::event::enqueue::{prepare, prepare_all, write_all, write_one};
use crate::event::error::EnqueueError;
use crate::event::key::EventKey;
use crate::event::message::{DEFAULT_MAX_PAYLOAD, EnqueueOptions, NewMessage, OutboxMessageId};
use crate::queue::Queue;
use sea_orm::ConnectionTrait;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::pin::Pin;

/// A message on its way into the database. The future borrows the connection.
pub type Enqueuing<'c, T> = Pin<Box<dyn Future<Output = Result<T, EnqueueError>> + Send + 'c>>;

/// An event: data with a name on the wire and a queue.
///
/// `#[outbox_event]` and `#[derive(OutboxEvent)]` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "put `#[outbox_event(queue = \"name\", partitions = 4)]` on it"
)]
pub trait Event: Serialize + for<'de> Deserialize<'de> + Send + 'static {
    /// The event type on the wire.
    const NAME: &'static str;
    /// Earlier names of the event type. Messages with these names are still decoded.
    const ALIASES: &'static [&'static str] = &[];
    /// The queue it goes to.
    const QUEUE: Queue;
    /// The largest payload, in bytes.
    const MAX_PAYLOAD: usize = DEFAULT_MAX_PAYLOAD;
}

/// A limit on payloads, for constants. A bad limit is a compile error there.
///
/// # Panics
/// If `bytes` is not 1 to 16 MiB.
#[must_use]
#[track_caller]
pub const fn max_payload(bytes: usize) -> usize {
    assert!(
        1 <= bytes && bytes <= 16 * 1024 * 1024,
        "`max_payload` must be 1 to 16777216 bytes (16 MiB)"
    );
    bytes
}

/// Enqueues an event under a key. See the method that `#[outbox_event]` generates.
pub fn enqueue<'c, E, C, K>(event: &E, conn: &'c C, key: K) -> Enqueuing<'c, OutboxMessageId>
where
    E: Event,
    C: ConnectionTrait,
    K: EventKey,
{
    send::<E, C>(conn, message(event, key))
}

/// Enqueues an event under a key, with options.
pub fn enqueue_with<'c, E, C, K>(
    event: &E,
    conn: &'c C,
    key: K,
    options: EnqueueOptions,
) -> Enqueuing<'c, OutboxMessageId>
where
    E: Event,
    C: ConnectionTrait,
    K: EventKey,
{
    send::<E, C>(conn, message(event, key).map(|m| m.with(options)))
}

/// Enqueues an event to a partition of the caller's choice.
pub fn enqueue_to<'c, E, C, K>(
    event: &E,
    conn: &'c C,
    partition: u32,
    key: K,
) -> Enqueuing<'c, OutboxMessageId>
where
    E: Event,
    C: ConnectionTrait,
    K: EventKey,
{
    send::<E, C>(conn, message(event, key).map(|m| m.to_partition(partition)))
}

/// Enqueues many events at once, in order.
pub fn enqueue_all<'c, E, C, I, K, B>(conn: &'c C, events: I) -> Enqueuing<'c, Vec<OutboxMessageId>>
where
    E: Event,
    C: ConnectionTrait,
    I: IntoIterator<Item = (K, B)>,
    K: EventKey,
    B: Borrow<E>,
{
    let messages = events
        .into_iter()
        .map(|(key, event)| message(event.borrow(), key));
    let prepared = prepare_all(&E::QUEUE, messages);
    Box::pin(async move { write_all(conn, &E::QUEUE, prepared?).await })
}

fn send<'c, E: Event, C: ConnectionTrait>(
    conn: &'c C,
    message: Result<NewMessage, EnqueueError>,
) -> Enqueuing<'c, OutboxMessageId> {
    let prepared = message.and_then(|message| prepare(&E::QUEUE, message));
    Box::pin(async move { write_one(conn, &E::QUEUE, prepared?).await })
}

fn message<E: Event, K: EventKey>(event: &E, key: K) -> Result<NewMessage, EnqueueError> {
    match serde_json::to_vec(event) {
        Ok(payload) => Ok(NewMessage::new(E::NAME, key, payload).max_payload(E::MAX_PAYLOAD)),
        Err(error) => Err(EnqueueError::encode(E::QUEUE.name(), E::NAME, error)),
    }
}
