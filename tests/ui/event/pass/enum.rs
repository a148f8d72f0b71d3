use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 8)]
#[derive(Serialize, Deserialize)]
pub enum OrderEvent {
    Created { order_id: i64 },
    Shipped(i64),
    Closed,
}

pub async fn close(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    OrderEvent::Closed.enqueue(tx, 7).await
}

fn main() {
    assert_eq!(OrderEvent::NAME, "OrderEvent");
}
