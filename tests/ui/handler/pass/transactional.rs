use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_event(queue = "shipments", partitions = 4, key = order_id)]
#[derive(Debug, Serialize, Deserialize)]
pub struct Shipped {
    pub order_id: i64,
}

#[outbox_handler(mode = transactional, consumer = "event")]
async fn event(event: OrderCreated, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let shipped = Shipped { order_id: event.order_id };
    shipped.emit(tx).await?;
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "message")]
async fn message(message: Message<OrderCreated>, ctx: &Ctx, tx: &DatabaseTransaction) -> HandlerResult {
    let _ = (message.id(), ctx.remaining());
    match tx.execute_unprepared("SELECT 1").await {
        Ok(_) => HandlerResult::Success,
        Err(error) => HandlerResult::retry(error),
    }
}

#[outbox_handler(mode = transactional, consumer = "vec")]
async fn vec(events: Vec<OrderCreated>, tx: &'_ outbox::sea_orm::DatabaseTransaction) -> Result<(), String> {
    for event in events {
        event.enqueue(tx, 7).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "batch")]
async fn batch(
    mut batch: Batch<'_, Message<OrderCreated>>,
    _: Headers,
    tx: &DatabaseTransaction,
) -> Result<(), Box<dyn std::error::Error>> {
    while let Some(message) = batch.next_msg() {
        message.event.enqueue(tx, 7).await?;
        batch.ack();
    }
    Ok(())
}

// The transaction is there for those who want it.
#[outbox_handler(mode = transactional, consumer = "nothing")]
async fn nothing(_: OrderCreated) {}

fn main() {
    let registry = outbox::registry();
    assert_eq!(registry.handlers().len(), 5);
    for handler in registry.handlers() {
        assert_eq!(handler.mode, outbox::Mode::Transactional);
    }
}
