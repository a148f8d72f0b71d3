outbox::queue!();
outbox::queue!("orders", 4);
outbox::queue!(pub struct Orders = "orders", partitions = 4);

fn main() {}
