use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[tracing::instrument(skip_all, fields(order = event.order_id))]
#[outbox_handler(mode = leased, consumer = "first")]
async fn first(event: OrderCreated, ctx: &Ctx) -> Result<(), HandlerError> {
    let _ = (event, ctx);
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "last")]
#[tracing::instrument(skip(tx), err)]
async fn last(events: Vec<OrderCreated>, tx: &DatabaseTransaction) -> Result<(), String> {
    for event in events {
        event.enqueue(tx, 7).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn main() {
    assert_eq!(outbox::registry().handlers().len(), 2);
}
