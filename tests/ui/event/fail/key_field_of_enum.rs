use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = order_id)]
#[derive(Serialize, Deserialize)]
pub enum OrderEvent {
    Created { order_id: i64 },
}

fn main() {}
