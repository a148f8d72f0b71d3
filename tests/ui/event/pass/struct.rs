use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
    pub total_cents: i64,
}

pub async fn place(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    let event = OrderCreated {
        order_id: 7,
        total_cents: 1999,
    };
    event.enqueue(tx, event.order_id).await?;
    event.enqueue_to(tx, 3, "customer-7").await?;
    let options = EnqueueOptions::new().header("traceparent", "00-4bf9-01");
    event.enqueue_with(tx, ("acme", 7), options).await?;
    OrderCreated::enqueue_all(tx, [(7, &event)]).await?;
    let ids = OrderCreated::enqueue_all(tx, vec![("a", event)]).await?;
    Ok(ids[0])
}

fn main() {
    assert_eq!(OrderCreated::NAME, "OrderCreated");
    assert!(OrderCreated::ALIASES.is_empty());
    assert_eq!(OrderCreated::QUEUE.name(), "orders");
    assert_eq!(OrderCreated::QUEUE.partitions(), Partitions::of(4));
    assert_eq!(OrderCreated::MAX_PAYLOAD, 64 * 1024);
}
