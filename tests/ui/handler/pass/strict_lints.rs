//! A crate with strict lints.
#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_results,
    missing_debug_implementations
)]
#![deny(
    rust_2018_idioms,
    single_use_lifetimes,
    unused_lifetimes,
    let_underscore_drop,
    elided_lifetimes_in_paths
)]
#![forbid(unsafe_code)]

use outbox::prelude::*;

/// An order was placed.
#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    /// Which.
    pub order_id: i64,
}

/// Ships an order.
#[outbox_handler(
    mode = leased,
    consumer = "ship",
    batch = 50,
    concurrency = 4,
    max_attempts = 3,
    retry(base = "250ms", max = "5m", jitter = false),
    lease = "1m",
    headroom = "5s",
    timeout = "20s",
)]
pub async fn ship(_: OrderCreated, _: State<i64>, _: &Ctx, _: Headers) -> HandlerResult {
    HandlerResult::Success
}

/// Books orders.
#[outbox_handler(mode = transactional, consumer = "book", from = earliest, handle = Book)]
async fn book(_: Vec<Message<OrderCreated>>, _: &DatabaseTransaction) -> Result<(), HandlerError> {
    Ok(())
}

/// Walks through orders.
#[outbox_handler(mode = leased, consumer = "walk")]
async fn walk(mut batch: Batch<'_, OrderCreated>) {
    batch.ack_chunk(1);
}

#[outbox_handler(mode = leased, consumer = "private")]
async fn without_docs(_: Vec<OrderCreated>) {}

fn main() {
    let handlers = outbox::handlers![ship, Book, walk, without_docs];
    assert_eq!(handlers.len(), 4);
}
