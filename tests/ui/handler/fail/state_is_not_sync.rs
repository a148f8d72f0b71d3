use outbox::prelude::*;
use std::cell::Cell;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = leased)]
async fn ship(_: OrderCreated, _: State<Cell<i64>>) {}

fn main() {
    let _ = outbox::handlers![ship];
}
