//! The events that the code under test has enqueued.

use crate::database;
use crate::event::Event;
use crate::event::decode::decode;
use sea_orm::ConnectionTrait;

/// The events of this type that were enqueued and are still there, oldest first. Delivered events
/// are there too, until something deletes them. A test that only [drains](super::TestOutbox::drain)
/// deletes nothing. On an open transaction this also returns what the transaction has enqueued.
///
/// # Panics
/// If the database cannot be read, or if a message with the event's name cannot be decoded.
pub async fn enqueued<E: Event>(conn: &impl ConnectionTrait) -> Vec<E> {
    let payloads = payloads::<E>(conn).await;
    let decoded = payloads.iter().map(|payload| decode(payload));
    decoded
        .map(|event| event.unwrap_or_else(|error| panic!("a message that was enqueued: {error}")))
        .collect()
}

/// Fails a test unless an event of this type was enqueued for which `wanted` is true.
///
/// ```
/// # use outbox_runtime::{Event, Partitions, Queue, testing};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct OrderCreated { order_id: i64 }
/// # impl Event for OrderCreated {
/// #     const NAME: &'static str = "order.created";
/// #     const QUEUE: Queue = Queue::of("orders", Partitions::of(4));
/// # }
/// # #[tokio::main]
/// # async fn main() -> Result<(), outbox_runtime::EnqueueError> {
/// let db = testing::database().await;
/// // the code under test:
/// outbox_runtime::event::enqueue(&OrderCreated { order_id: 7 }, &db, 7).await?;
///
/// testing::assert_enqueued::<OrderCreated>(&db, |event| event.order_id == 7).await;
/// testing::assert_not_enqueued::<OrderCreated>(&db, |event| event.order_id == 8).await;
/// # Ok(())
/// # }
/// ```
///
/// # Panics
/// If there is none. The message shows all events of this type, as JSON.
pub async fn assert_enqueued<E: Event>(conn: &impl ConnectionTrait, wanted: impl Fn(&E) -> bool) {
    let events = enqueued::<E>(conn).await;
    assert!(
        events.iter().any(wanted),
        "no `{}` as wanted was enqueued; {}",
        E::NAME,
        shown::<E>(conn).await
    );
}

/// Fails a test if an event of this type was enqueued for which `unwanted` is true.
///
/// # Panics
/// If there is one. The message shows all events of this type, as JSON.
pub async fn assert_not_enqueued<E: Event>(
    conn: &impl ConnectionTrait,
    unwanted: impl Fn(&E) -> bool,
) {
    let events = enqueued::<E>(conn).await;
    assert!(
        !events.iter().any(unwanted),
        "a `{}` was enqueued that should not have been; {}",
        E::NAME,
        shown::<E>(conn).await
    );
}

async fn payloads<E: Event>(conn: &impl ConnectionTrait) -> Vec<Vec<u8>> {
    let names: Vec<&str> = E::ALIASES.iter().copied().chain([E::NAME]).collect();
    database::enqueued::payloads(conn, &E::QUEUE, &names)
        .await
        .unwrap_or_else(|error| panic!("what was enqueued could not be read: {error}"))
}

async fn shown<E: Event>(conn: &impl ConnectionTrait) -> String {
    let payloads = payloads::<E>(conn).await;
    let mut lines = vec![format!("there are {}", payloads.len())];
    lines.extend(
        payloads
            .iter()
            .map(|payload| String::from_utf8_lossy(payload).into_owned()),
    );
    lines.join("\n  ")
}
