use outbox::prelude::*;

macro_rules! event {
    ($vis:vis $name:ident($field:ident: $ty:ty), $queue:literal, $count:expr, $wire:expr) => {
        #[outbox_event(queue = $queue, partitions = $count, name = $wire, key = $field)]
        #[derive(Serialize, Deserialize)]
        $vis struct $name {
            $field: $ty,
        }
    };
    ($name:ident in $queue:path, $key:expr) => {
        #[outbox_event(queue = $queue, key = $key)]
        #[derive(Serialize, Deserialize)]
        pub struct $name(i64);
    };
    ($name:ident, inner) => {
        #[outbox_event(queue = "orders", partitions = 4, key = inner)]
        #[derive(Serialize, Deserialize)]
        pub struct $name {
            inner: i64,
        }
    };
}

outbox::queue!(Orders = "orders", partitions = 4);

event!(pub Created(order_id: i64), "orders", 4, "order.created");
event!(Paid in self::Orders, 0);
event!(Shipped, inner);

fn main() {
    assert_eq!(Created::NAME, "order.created");
    assert_eq!(Created::QUEUE, Paid::QUEUE);
    assert_eq!(Shipped::QUEUE, Paid::QUEUE);
}
