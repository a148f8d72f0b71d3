//! A crate with strict lints.
#![deny(
    warnings,
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    unused_results
)]
#![deny(
    rust_2018_idioms,
    single_use_lifetimes,
    unused_lifetimes,
    let_underscore_drop
)]
#![forbid(unsafe_code)]

use outbox::prelude::*;

outbox::queue!(pub Orders = "orders", partitions = 4);

/// An order was placed.
#[outbox_event(queue = Orders, name = "order.created", aliases = ["o"], key = order_id)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    /// Which.
    pub order_id: i64,
}

/// An order was paid.
#[outbox_event(queue = "payments", partitions = 2, max_payload = 1_024 * 2)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderPaid(/** Which. */ pub i64);

/// Something else.
#[derive(Debug, Serialize, Deserialize, OutboxEvent)]
#[outbox(queue = "other", partitions = 1, key = Self::name)]
pub enum Other {
    /// This.
    This,
}

impl Other {
    fn name(&self) -> &'static str {
        match self {
            Self::This => "this",
        }
    }
}

fn main() {}
