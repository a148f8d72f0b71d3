use outbox::prelude::*;

outbox::queue!(
    /// What happens to orders.
    #[derive(Debug)]
    pub Orders = "orders",
    partitions = 4,
);

mod queues {
    outbox::queue!(pub(super) Payments = "payments", partitions = super::COUNT);
}

const COUNT: u32 = 2;

#[outbox_event(queue = Orders)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(pub i64);

#[derive(Serialize, Deserialize, OutboxEvent)]
#[outbox(queue = crate::Orders, name = "order.cancelled")]
pub struct OrderCancelled(pub i64);

#[outbox_event(queue = queues::Payments)]
#[derive(Serialize, Deserialize)]
pub struct Paid(pub i64);

fn main() {
    assert_eq!(OrderCreated::QUEUE, OrderCancelled::QUEUE);
    assert_eq!(OrderCreated::QUEUE.name(), "orders");
    assert_eq!(Paid::QUEUE.partitions().count(), 2);
}
