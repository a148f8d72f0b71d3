use outbox::prelude::*;
use std::rc::Rc;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = leased)]
async fn ship(event: OrderCreated) {
    let counter = Rc::new(event.order_id);
    tokio::task::yield_now().await;
    drop(counter);
}

fn main() {
    let _ = outbox::handlers![ship];
}
