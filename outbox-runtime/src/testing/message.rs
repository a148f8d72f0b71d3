//! Arguments of a handler, made by hand.

use crate::database::cursor::{RawBody, RawRow};
use crate::event::Event;
use crate::event::key::EventKey;
use crate::event::message::Headers;
use crate::event::unique::nonce;
use crate::handler::states::States;
use crate::handler::{Ctx, Message, OutboxMessage};
use std::time::{Duration, Instant, SystemTime};
use tokio_util::sync::CancellationToken;

/// A message as a handler would get it: id 1, sequence number 1, in the partition of its key.
///
/// # Panics
/// If the event cannot be written as JSON.
pub fn message<E: Event>(event: E, key: impl EventKey) -> Message<E> {
    message_with(event, key, Headers::new())
}

/// A message with headers. Headers that only the outbox sets are allowed, such as
/// [`REQUEUED_FROM`](crate::REQUEUED_FROM).
///
/// # Panics
/// If the event cannot be written as JSON.
pub fn message_with<E: Event>(event: E, key: impl EventKey, headers: Headers) -> Message<E> {
    let key = key.to_key_bytes();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = now.unwrap_or_default().as_micros();
    let body = RawBody {
        event_type: E::NAME.to_owned(),
        payload: serde_json::to_vec(&event).expect("the event can be written as JSON"),
        // Not checked: a handler may get headers that no producer may send.
        headers: Some(headers.to_json()),
        target: None,
        enqueued_us: i64::try_from(micros).unwrap_or(i64::MAX),
        nonce: nonce(),
        key,
    };
    let row = RawRow {
        seq: 1,
        id: 1,
        body: None,
        done: false,
    };
    let partition = E::QUEUE.partition_of_key(&body.key);
    let raw = OutboxMessage::new(&E::QUEUE.name().into(), partition, &row, body, 0);
    Message::new(event, raw)
}

/// The `&Ctx` that a handler of this message would get: without states, and with a minute left.
#[must_use]
pub fn ctx(message: &OutboxMessage) -> Ctx {
    ctx_with(message, States::default())
}

pub(super) fn ctx_with(message: &OutboxMessage, states: States) -> Ctx {
    Ctx::new(
        message.clone(),
        CancellationToken::new(),
        Instant::now() + Duration::from_secs(60),
        states,
    )
}
