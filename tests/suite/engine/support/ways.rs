//! The ways to serve a consumer, for promises that hold for each.

use super::super::*;
use super::gated_handler::Gated;
use outbox_runtime::{OutboxBuilder, OutboxHandle, QueueBuilder};

/// Ways to serve a consumer.
pub(crate) type Serve = fn(QueueBuilder, Gated) -> OutboxBuilder;
pub(crate) const WAYS: [(&str, Serve); 3] = [
    ("each", |queue, gated| queue.leased(gated)),
    ("keys", |queue, gated| queue.concurrency(4).leased(gated)),
    ("booked", |queue, gated| queue.transactional(gated)),
];

pub(crate) async fn start(db: &TestDb, way: (&str, Serve), gated: &Gated) -> OutboxHandle {
    start_with(db, way, gated, LeaseConfig::default(), 3).await
}

pub(crate) async fn start_with(
    db: &TestDb,
    (name, serve): (&str, Serve),
    gated: &Gated,
    lease: LeaseConfig,
    attempts: u32,
) -> OutboxHandle {
    let queue = eager_orders(db.connection()).consumer(name);
    let queue = queue.lease(lease).retry(soon(attempts));
    serve(queue, gated.clone()).start().await.unwrap()
}
