use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = price)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub price: f64,
}

fn main() {}
