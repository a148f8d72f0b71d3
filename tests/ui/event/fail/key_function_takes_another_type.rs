use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = Self::key)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

impl OrderCreated {
    fn key(order_id: i64) -> i64 {
        order_id
    }
}

fn main() {}
