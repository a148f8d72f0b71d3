use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, queue = "payments")]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

pub async fn place(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    OrderCreated { order_id: 7 }.enqueue(tx, 7).await
}

fn main() {}
