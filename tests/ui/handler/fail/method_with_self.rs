use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

pub struct Warehouse;

impl Warehouse {
    #[outbox_handler(mode = leased)]
    async fn ship(&self, _: OrderCreated) {}
}

fn main() {}
