use outbox::prelude::*;

#[derive(Serialize, Deserialize, OutboxEvent)]
#[outbox(queue = "orders", partitions = 4, name = "order.created", key = order_id)]
pub struct OrderCreated {
    pub order_id: i64,
}

// Several lists are one.
#[derive(Serialize, Deserialize, outbox::OutboxEvent)]
#[outbox(queue = "orders")]
#[serde(tag = "kind")]
#[outbox(partitions = 4)]
pub enum OrderEvent {
    Shipped { order_id: i64 },
}

pub async fn place(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    OrderEvent::Shipped { order_id: 7 }.enqueue(tx, 7).await?;
    OrderCreated { order_id: 7 }.emit(tx).await
}

fn main() {
    assert_eq!(OrderCreated::NAME, "order.created");
    assert_eq!(OrderEvent::QUEUE, OrderCreated::QUEUE);
}
