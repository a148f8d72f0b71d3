use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(i64);

// What is not `Send` may be there between two awaits, and be returned.
#[outbox_handler(mode = leased)]
async fn ship(event: OrderCreated) -> Result<(), Box<dyn std::error::Error>> {
    {
        let counter = std::rc::Rc::new(event.0);
        drop(counter);
    }
    tokio::task::yield_now().await;
    Err(Box::new(std::fmt::Error))
}

// Borrows across awaits.
#[outbox_handler(mode = leased, consumer = "borrow")]
async fn borrow(mut batch: Batch<'_, Message<OrderCreated>>, ctx: &Ctx, State(db): State<DatabaseConnection>) -> Result<(), HandlerError> {
    while let Some(message) = batch.next_msg() {
        ctx.cancellation().run_until_cancelled(tokio::task::yield_now()).await;
        message.event.enqueue(&db, message.key()).await?;
        batch.ack();
    }
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "nested")]
async fn nested(events: Vec<OrderCreated>, tx: &DatabaseTransaction, ctx: &Ctx) -> Result<(), HandlerError> {
    let inner = tx.begin().await?;
    for event in &events {
        event.enqueue(&inner, ctx.message().key()).await?;
    }
    inner.commit().await?;
    Ok(())
}

fn main() {
    assert_eq!(outbox::registry().handlers().len(), 3);
}
