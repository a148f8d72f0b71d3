//! The macros of the [`outbox`](https://docs.rs/outbox) crate; use them from there.
//!
//! Each reads its input, checks every rule, reports all mistakes at once at the
//! tokens they are in, and generates a few lines that call the runtime.

mod diag;
mod event;
mod fallback;
mod name;
mod options;
mod partitions;
mod paths;
mod queue;

use proc_macro::TokenStream;

/// Makes a struct or an enum an event: data that is sent with a transaction.
///
/// ```
/// use outbox::prelude::*;
///
/// #[outbox_event(queue = "orders", partitions = 4, name = "order.created", key = order_id)]
/// #[derive(Debug, Serialize, Deserialize)]
/// pub struct OrderCreated {
///     pub order_id: i64,
///     pub total_cents: i64,
/// }
///
/// async fn place(tx: &DatabaseTransaction) -> Result<(), EnqueueError> {
///     let created = OrderCreated { order_id: 7, total_cents: 1999 };
///     created.enqueue(tx, "customer-7").await?; // under a key of the caller's choice
///     created.emit(tx).await?; // under its own key, `order_id`
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
/// The type must implement serde's `Serialize` and `Deserialize`, own its data, and
/// have no generic parameters. The attribute may stand before or after others.
///
/// # Options
///
/// | option | value |
/// |---|---|
/// | `queue` | the queue it goes to: a name, `"orders"`, or a type declared with [`queue!`], `Orders` |
/// | `partitions` | the queue's number of partitions: 1, 2, 4, 8, 16, 32 or 64, a literal or a constant; not with a queue type, which knows it |
/// | `name` | what the event is called in the database; the type's name if left out |
/// | `aliases` | names it had earlier, `["OrderPlaced", "order.v0"]`: messages that carry them are still decoded |
/// | `key` | a field, `order_id` or `0`, or a function of `&Self` written as a path, `Self::order_key`; makes `emit` available |
/// | `max_payload` | the largest payload in bytes, 1 to 16 MiB, a literal or a constant; 64 KiB if left out |
/// | `crate` | the path of this crate if it is not `::outbox` |
///
/// Names of queues and events are 1 to 128 ASCII letters, digits, `.`, `_` or `-`.
///
/// Give an event a `name` of its own. Without one it is the type's name, and then
/// renaming the type orphans the messages that are on their way: they carry the old
/// name, which nobody knows any more, and end up in dead letters. If it happened,
/// `aliases` brings the old name back.
///
/// # Methods
///
/// The type gets these methods, with its own visibility. `conn` is any sea-orm
/// connection or transaction.
///
/// - `enqueue(&self, conn, key)` enqueues it under a key. `Ok` means that it is
///   delivered if the surrounding transaction commits.
/// - `enqueue_with(&self, conn, key, options)` does so with headers.
/// - `enqueue_to(&self, conn, partition, key)` sends it to a partition of your choice.
/// - `enqueue_all(conn, events)` enqueues many, each with its key, in few round trips.
/// - `emit(&self, conn)` enqueues it under its own key, if `key` is given.
///
/// It also gets an implementation of `outbox::Event`, and is listed in `outbox::events()`.
#[proc_macro_attribute]
pub fn outbox_event(args: TokenStream, item: TokenStream) -> TokenStream {
    event::attribute(args.into(), item.into()).into()
}

/// Makes a struct or an enum an event: [`macro@outbox_event`] as a derive.
///
/// The options are the same, and so is what is generated:
///
/// ```
/// use outbox::prelude::*;
///
/// #[derive(Debug, Serialize, Deserialize, OutboxEvent)]
/// #[outbox(queue = "orders", partitions = 4, name = "order.created")]
/// pub struct OrderCreated {
///     pub order_id: i64,
/// }
/// # fn main() {}
/// ```
#[proc_macro_derive(OutboxEvent, attributes(outbox))]
pub fn derive_outbox_event(item: TokenStream) -> TokenStream {
    event::derive(item.into()).into()
}

/// Declares a queue once, as a type, so that its events cannot disagree on its partitions.
///
/// ```
/// use outbox::prelude::*;
///
/// outbox::queue!(pub Orders = "orders", partitions = 4);
///
/// #[outbox_event(queue = Orders, name = "order.created")]
/// #[derive(Serialize, Deserialize)]
/// pub struct OrderCreated {
///     pub order_id: i64,
/// }
///
/// #[outbox_event(queue = Orders, name = "order.cancelled")]
/// #[derive(Serialize, Deserialize)]
/// pub struct OrderCancelled {
///     pub order_id: i64,
/// }
/// # fn main() {}
/// ```
///
/// Doc comments and other attributes go before the visibility. The options are
/// `partitions`, which is needed: 1, 2, 4, 8, 16, 32 or 64, a literal or a constant;
/// and `crate`, the path of this crate if it is not `::outbox`.
#[proc_macro]
pub fn queue(input: TokenStream) -> TokenStream {
    queue::declare(input.into()).into()
}
