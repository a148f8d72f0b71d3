use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = leased, from = latest)]
async fn ship(_: OrderCreated) {}

fn main() {
    let _ = outbox::handlers![ship];
}
