use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
pub async fn order_created() {}

#[outbox_event(queue = "orders", partitions = 4)]
impl Order {
    pub fn created() {}
}

pub struct Order;

fn main() {
    let _ = order_created();
    Order::created();
}
