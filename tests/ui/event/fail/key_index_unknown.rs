use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = 1)]
#[derive(Serialize, Deserialize)]
pub struct OrderShipped(i64);

fn main() {}
