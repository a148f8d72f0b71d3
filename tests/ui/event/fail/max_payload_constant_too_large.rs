use outbox::prelude::*;

const MIB: usize = 1 << 20;

#[outbox_event(queue = "orders", partitions = 4, max_payload = 17 * MIB)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

pub async fn place(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    OrderCreated { order_id: 7 }.enqueue(tx, 7).await
}

fn main() {}
