use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

pub struct Ship;

fn main() {
    let _ = outbox::handlers![Ship];
}
