use outbox::prelude::*;

/// An order was placed.
#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    /// Which.
    pub order_id: i64,
}

/// Nothing refers to it.
#[outbox_handler(mode = leased)]
async fn ship(_: OrderCreated) {}
