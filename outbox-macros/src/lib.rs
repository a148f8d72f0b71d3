//! The macros of the [`outbox`](https://docs.rs/outbox) crate; use them from there.
//!
//! Each reads its input, checks every rule, reports all mistakes at once at the
//! tokens they are in, and generates a few lines that call the runtime.

mod diag;
mod event;
mod fallback;
mod handler;
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
/// Give an event a `name` of its own. Without one it has the type's name. If the type is
/// then renamed, messages that are on their way still carry the old name. No handler
/// knows that name any more, so they become dead letters. If this happened,
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

/// Makes an async function a handler of an event.
///
/// ```
/// use outbox::prelude::*;
///
/// # #[derive(Clone)] pub struct Warehouse;
/// # impl Warehouse { async fn ship(&self, _: i64) -> Result<(), std::io::Error> { Ok(()) } }
/// #[outbox_event(queue = "orders", partitions = 4)]
/// #[derive(Debug, Serialize, Deserialize)]
/// pub struct OrderCreated {
///     pub order_id: i64,
/// }
///
/// /// At least once, outside any transaction: a side effect outside this database.
/// #[outbox_handler(mode = leased, retry(base = "1s", max = "5m"), lease = "1m")]
/// async fn ship(event: OrderCreated, State(warehouse): State<Warehouse>) -> Result<(), HandlerError> {
///     warehouse.ship(event.order_id).await?; // any error is a retry
///     Ok(())
/// }
///
/// /// Exactly once with the database: what is written commits with the acknowledgement.
/// #[outbox_handler(mode = transactional, consumer = "ledger")]
/// async fn book(event: OrderCreated, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
///     tx.execute_unprepared("INSERT INTO ledger ...").await?;
///     Ok(())
/// }
/// # fn main() {}
/// ```
///
/// The function stays as it is and can be called, in a test for example. The macro adds
/// a type of the same name that stands for the handler, for
/// `.handler::<ship>()` and `outbox::handlers![ship, book]`. It also lists the handler,
/// so that `Outbox::builder(db).start()` finds it.
///
/// # Arguments
///
/// The first is the message:
///
/// | type | what it gets |
/// |---|---|
/// | `E` | an event, one at a time |
/// | `Message<E>` | with id, key, partition, sequence, attempts, headers, enqueued-at |
/// | `Vec<E>`, `Vec<Message<E>>` | a batch of one partition, all or nothing; if it fails, one message at a time until the guilty one is found |
/// | `Batch<'_, E>`, `Batch<'_, Message<E>>` | a batch, with an outcome for each message |
///
/// More arguments may follow, in any order: `State<T>`, a clone of what was given to the
/// builder with `.state(..)`; `&Ctx`, message data, cancellation and remaining time; `Headers`;
/// in transactional mode `&DatabaseTransaction`; and types that implement `outbox::Extract`.
/// With a batch they are about its first message.
///
/// # Return types
///
/// Nothing, `HandlerResult`, or `Result<(), E>` where `E` implements `Display`: an error
/// is a retry. `HandlerError` says more: `retry`, `retry_after`, `reject`; `?` makes one of
/// every standard error.
///
/// # Options
///
/// | option | value |
/// |---|---|
/// | `mode` | `leased` or `transactional`; needed |
/// | `consumer` | the consumer it belongs to, `"ledger"`; `"default"` if left out. A consumer has its own progress, failures and dead letters |
/// | `from` | `earliest`: a new consumer of an old queue starts at the oldest message that is still there, not at the next one |
/// | `batch` | how many messages it takes at once, 1 to 10,000 |
/// | `concurrency` | how many keys of a partition at a time, each in order; leased, single messages. After a crash, messages that were done ahead of one that was not done are delivered again |
/// | `max_attempts` | after so many failed attempts a message goes to the dead letters; 10 by default |
/// | `retry` | `retry(base = "1s", max = "5m", jitter = true)`: the pause after a failure, doubling from `base` to `max`, at random up to that with `jitter` |
/// | `lease` | how long a claim is valid, `"30s"`; handlers of one consumer share the longest |
/// | `headroom` | how long before the end of the lease the handler is cancelled, `"2s"` |
/// | `timeout` | how long one call may take; if left out, the lease is the limit |
/// | `handle` | another name for the type that stands for the handler, `ShipHandler`; for use where a module or a type has the function's name |
/// | `crate` | the path of this crate if it is not `::outbox` |
///
/// Durations are a whole number and `ms`, `s`, `m` or `h`.
///
/// # If a handler is not found
///
/// Handlers are found in every crate that is linked into the binary. A library that is
/// listed in `Cargo.toml` but that the binary never names is not linked, so its handlers
/// and events are not found. To link it, use anything of it in the binary, or write one line:
/// `use my_handlers as _;`. `start()` logs which handlers it runs. A test
/// that looks for a handler in `outbox::registry()` finds this before a deploy does.
/// `.strict()` makes an event without a handler an error, if the event itself is linked.
///
/// A method cannot be a handler, with `self` or without: the macro adds a type, and an
/// `impl` cannot contain one.
#[proc_macro_attribute]
pub fn outbox_handler(args: TokenStream, item: TokenStream) -> TokenStream {
    handler::attribute(args.into(), item.into()).into()
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
