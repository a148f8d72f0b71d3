use outbox::prelude::*;
use std::rc::Rc;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = transactional)]
async fn ship(event: OrderCreated, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let counter = Rc::new(event.order_id);
    tx.execute_unprepared("SELECT 1").await?;
    drop(counter);
    Ok(())
}

fn main() {
    let _ = outbox::handlers![ship];
}
