mod bus {
    pub use outbox::*;
}

mod platform {
    pub mod events {
        pub use outbox::{__private, outbox_event};
    }
}

use bus::prelude::*;

bus::queue!(Orders = "orders", partitions = 4, crate = crate::bus);

#[bus::outbox_event(queue = Orders, crate = bus)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(pub i64);

#[platform::events::outbox_event(queue = "orders", partitions = 4, crate = self::platform::events)]
#[derive(Serialize, Deserialize)]
pub struct OrderPaid(pub i64);

fn main() {
    assert_eq!(OrderCreated::QUEUE, OrderPaid::QUEUE);
}
