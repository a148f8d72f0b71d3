use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderPaid;

pub async fn place(tx: &DatabaseTransaction) -> Result<Vec<OutboxMessageId>, EnqueueError> {
    OrderCreated::enqueue_all(tx, [(7, OrderPaid)]).await
}

fn main() {}
