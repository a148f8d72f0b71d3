//! Turns functions into handlers: they decode the message, call the function, and translate what it
//! returns.
//!
//! `#[outbox_handler]` writes closures that call the user's function. The functions here make
//! handlers of them.

use super::{
    AnyHandler, Batch, Ctx, HandlerError, HandlerResult, LeasedHandler, LeasedMessageHandler,
    OutboxMessage, TransactionalHandler, TransactionalMessageHandler,
};
use crate::event::Event;
use crate::event::decode;
use sea_orm::DatabaseTransaction;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

/// An event with the metadata of its message: id, key, partition, sequence number, attempts,
/// headers and the time of enqueueing. All of them are methods of [`OutboxMessage`].
#[derive(Clone)]
pub struct Message<E> {
    /// The event.
    pub event: E,
    message: OutboxMessage,
}

impl<E> Message<E> {
    pub(crate) fn new(event: E, message: OutboxMessage) -> Self {
        Self { event, message }
    }
}

impl<E> Deref for Message<E> {
    type Target = OutboxMessage;

    fn deref(&self) -> &OutboxMessage {
        &self.message
    }
}

/// The event may be a secret: it is not shown.
impl<E> fmt::Debug for Message<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(f)
    }
}

/// A type that a handler may take as its message: an event, with or without metadata.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "the first argument of a handler is its message: an event `E`, `Message<E>`, `Vec<E>` or \
            `Batch<'_, E>`",
    note = "to make it an event put `#[outbox_event(queue = \"name\", partitions = 4)]` on it"
)]
pub trait FromMessage: Sized + Send + 'static {
    /// The event.
    type Event: Event;

    #[doc(hidden)]
    fn from_message(event: Self::Event, message: &OutboxMessage) -> Self;
}

impl<E: Event> FromMessage for E {
    type Event = E;

    fn from_message(event: E, _: &OutboxMessage) -> E {
        event
    }
}

impl<E: Event> FromMessage for Message<E> {
    type Event = E;

    fn from_message(event: E, message: &OutboxMessage) -> Self {
        Self::new(event, message.clone())
    }
}

/// The running function of a handler.
pub type HandlerFuture<'a> = Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>>;

/// A call of a handler's function. It is an error if an argument could not be made.
pub type Call<'a> = Result<HandlerFuture<'a>, HandlerError>;

/// Runs a function and translates what it returns. If its future is not `Send`, the compiler says
/// so at this call and nowhere else.
pub fn run<'a, F, T>(future: F, translate: fn(T) -> HandlerResult) -> Call<'a>
where
    F: Future<Output = T> + Send + 'a,
    T: 'a,
{
    Ok(Box::pin(async move { translate(future.await) }))
}

/// A handler made of a function, and the event that it handles.
pub struct FunctionHandler {
    pub(crate) handler: AnyHandler,
    pub(crate) event: EventInfo,
}

/// The event of a handler.
pub(crate) struct EventInfo {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) queue: crate::queue::Queue,
}

impl FunctionHandler {
    fn new<I: FromMessage>(handler: AnyHandler) -> Self {
        Self {
            handler,
            event: EventInfo {
                name: I::Event::NAME,
                aliases: I::Event::ALIASES,
                queue: I::Event::QUEUE,
            },
        }
    }
}

type LeasedEachFn<I> = for<'a> fn(I, &'a Ctx) -> Call<'a>;
type LeasedBatchFn<I> = for<'a> fn(Batch<'a, I>, &'a Ctx) -> Call<'a>;
type TransactionalEachFn<I> = for<'a> fn(I, &'a DatabaseTransaction, &'a Ctx) -> Call<'a>;
type TransactionalBatchFn<I> =
    for<'a> fn(Batch<'a, I>, &'a DatabaseTransaction, &'a Ctx) -> Call<'a>;

/// A leased handler of single messages.
pub fn leased_each<I: FromMessage>(call: LeasedEachFn<I>) -> FunctionHandler {
    FunctionHandler::new::<I>(AnyHandler::LeasedEach(Arc::new(Function(call))))
}

/// A leased handler of batches.
pub fn leased_batch<I: FromMessage>(call: LeasedBatchFn<I>) -> FunctionHandler {
    FunctionHandler::new::<I>(AnyHandler::LeasedBatch(Arc::new(Function(call))))
}

/// A transactional handler of single messages.
pub fn transactional_each<I: FromMessage>(call: TransactionalEachFn<I>) -> FunctionHandler {
    FunctionHandler::new::<I>(AnyHandler::TransactionalEach(Arc::new(Function(call))))
}

/// A transactional handler of batches.
pub fn transactional_batch<I: FromMessage>(call: TransactionalBatchFn<I>) -> FunctionHandler {
    FunctionHandler::new::<I>(AnyHandler::TransactionalBatch(Arc::new(Function(call))))
}

// The same for `Message<E>`. These functions name the event itself. So if `E` is no event, the
// compiler reports `E` and not `Message<E>`.

/// A leased handler of single messages with metadata.
pub fn leased_each_message<E: Event>(call: LeasedEachFn<Message<E>>) -> FunctionHandler {
    leased_each(call)
}

/// A leased handler of batches with metadata.
pub fn leased_batch_of_messages<E: Event>(call: LeasedBatchFn<Message<E>>) -> FunctionHandler {
    leased_batch(call)
}

/// A transactional handler of single messages with metadata.
pub fn transactional_each_message<E: Event>(
    call: TransactionalEachFn<Message<E>>,
) -> FunctionHandler {
    transactional_each(call)
}

/// A transactional handler of batches with metadata.
pub fn transactional_batch_of_messages<E: Event>(
    call: TransactionalBatchFn<Message<E>>,
) -> FunctionHandler {
    transactional_batch(call)
}

struct Function<F>(F);

#[async_trait::async_trait]
impl<I: FromMessage> LeasedMessageHandler for Function<LeasedEachFn<I>> {
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        match decode(message) {
            Ok(item) => finish((self.0)(item, ctx)).await,
            Err(reason) => HandlerResult::Reject { reason },
        }
    }
}

#[async_trait::async_trait]
impl<I: FromMessage> TransactionalMessageHandler for Function<TransactionalEachFn<I>> {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult {
        match decode(message) {
            Ok(item) => finish((self.0)(item, tx, ctx)).await,
            Err(reason) => HandlerResult::Reject { reason },
        }
    }
}

#[async_trait::async_trait]
impl<I: FromMessage> LeasedHandler for Function<LeasedBatchFn<I>> {
    async fn handle(&self, batch: &mut Batch<'_>, ctx: &Ctx) -> HandlerResult {
        match decode_all(batch) {
            Some(batch) => finish((self.0)(batch, ctx)).await,
            None => HandlerResult::Success,
        }
    }
}

#[async_trait::async_trait]
impl<I: FromMessage> TransactionalHandler for Function<TransactionalBatchFn<I>> {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        ctx: &Ctx,
    ) -> HandlerResult {
        match decode_all(batch) {
            Some(batch) => finish((self.0)(batch, tx, ctx)).await,
            None => HandlerResult::Success,
        }
    }
}

async fn finish(called: Call<'_>) -> HandlerResult {
    match called {
        Ok(running) => running.await,
        Err(error) => error.into(),
    }
}

/// Decodes the messages up to the first that cannot be decoded. If that is the very first message,
/// it is rejected, and there is nothing to handle.
fn decode_all<'a, I: FromMessage>(batch: &'a mut Batch<'_>) -> Option<Batch<'a, I>> {
    let mut items = Vec::with_capacity(batch.len());
    for message in batch.messages() {
        match decode(message) {
            Ok(item) => items.push(item),
            Err(_) if !items.is_empty() => break,
            Err(reason) => {
                batch.next_msg();
                batch.reject(reason);
                return None;
            }
        }
    }
    Some(batch.of(items))
}

fn decode<I: FromMessage>(message: &OutboxMessage) -> Result<I, String> {
    match decode::decode(message.payload()) {
        Ok(event) => Ok(I::from_message(event, message)),
        Err(error) => Err(error.to_string()),
    }
}
