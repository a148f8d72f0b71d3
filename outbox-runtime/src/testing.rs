//! For a program's own tests: is what the macros registered consistent, and what
//! a handler takes besides its event.

use crate::event::Event;
use crate::handler::{Ctx, Message, OutboxMessage};
use crate::key::EventKey;
use crate::message::Headers;
use crate::registry::registry;
use crate::state::States;
use crate::store::cursor::{RawBody, RawRow};
use std::time::{Duration, Instant, SystemTime};
use tokio_util::sync::CancellationToken;

/// Fails a test if events and handlers of this binary contradict each other, with
/// everything that `start()` would say: two handlers of one event, two modes in one
/// consumer, two numbers of partitions ...
///
/// ```
/// // in a test of yours:
/// outbox_runtime::testing::assert_valid_registry();
/// ```
///
/// # Panics
/// If they do.
pub fn assert_valid_registry() {
    let problems = registry().problems();
    assert!(
        problems.is_empty(),
        "events and handlers contradict each other:\n  - {}",
        problems.join("\n  - ")
    );
}

/// A message as a handler would get it: id 1, sequence 1, the partition of its key.
pub fn message<E: Event>(event: E, key: impl EventKey) -> Message<E> {
    message_with(event, key, Headers::new())
}

/// A message with headers.
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
        headers: headers.encode().unwrap_or_default(),
        target: None,
        enqueued_us: i64::try_from(micros).unwrap_or(i64::MAX),
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

/// What a handler of this message would get as `&Ctx`: without states, with a minute
/// to go.
#[must_use]
pub fn ctx(message: &OutboxMessage) -> Ctx {
    Ctx::new(
        message.clone(),
        CancellationToken::new(),
        Instant::now() + Duration::from_secs(60),
        States::default(),
    )
}
