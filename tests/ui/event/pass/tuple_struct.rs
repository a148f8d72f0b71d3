use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 1)]
#[derive(Serialize, Deserialize)]
pub struct OrderShipped(pub i64, pub String);

fn main() {
    assert_eq!(OrderShipped::NAME, "OrderShipped");
}
