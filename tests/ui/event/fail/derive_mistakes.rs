use outbox::prelude::*;

#[derive(Serialize, Deserialize, OutboxEvent)]
#[outbox(queue = "orders", partitions = 3)]
#[outbox(queue = "payments", nam = "a")]
pub struct OrderCreated {
    #[outbox(key)]
    pub order_id: i64,
}

#[derive(Serialize, Deserialize, OutboxEvent)]
#[outbox]
pub struct OrderPaid;

#[derive(Serialize, Deserialize, OutboxEvent)]
#[outbox = "orders"]
pub struct OrderShipped;

pub async fn place(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    OrderCreated { order_id: 7 }.enqueue(tx, 7).await
}

fn main() {}
