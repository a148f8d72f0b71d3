mod bus {
    pub use outbox::*;
}

mod platform {
    pub mod events {
        pub use outbox::{__private, outbox_handler};
    }
}

use bus::prelude::*;

#[bus::outbox_event(queue = "orders", partitions = 4, crate = bus)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(pub i64);

#[bus::outbox_handler(mode = leased, crate = bus)]
async fn ship(_: OrderCreated, _: &Ctx) {}

#[platform::events::outbox_handler(mode = transactional, consumer = "ledger", crate = self::platform::events)]
async fn book(_: Vec<Message<OrderCreated>>, _: &DatabaseTransaction) -> HandlerResult {
    HandlerResult::Success
}

fn main() {
    assert_eq!(bus::registry().handlers().len(), 2);
}
