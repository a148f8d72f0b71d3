use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = Self::key)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

impl OrderCreated {
    fn key(&self) -> Option<i64> {
        Some(self.order_id)
    }
}

fn main() {}
