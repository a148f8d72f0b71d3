#![forbid(unsafe_code)]

use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = 0)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(pub i64);

fn main() {
    assert!(outbox::events().any(|event| event.name == "OrderCreated"));
}
