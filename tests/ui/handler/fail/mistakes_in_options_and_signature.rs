use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = lesed, max_attempts = 0)]
fn ship<T>(_: &T) {}

fn main() {
    let _ = outbox::handlers![ship];
}
