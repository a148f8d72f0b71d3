use outbox::prelude::*;

outbox::queue!(pub Three = "orders", partitions = 3);
outbox::queue!(pub BadName = "my orders", partitions = 4);
outbox::queue!(pub NoPartitions = "orders");
outbox::queue!(pub NoName, partitions = 4);
outbox::queue!(pub NotAString = orders, partitions = 4);
outbox::queue!(pub Unknown = "orders", partitions = 4, retries = 3);
outbox::queue!(pub Misspelt = "orders", partition = 4);
outbox::queue!(pub NoComma = "orders" partitions = 4);

#[outbox_event(queue = Three)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated;

#[outbox_event(queue = NoName)]
#[derive(Serialize, Deserialize)]
pub struct OrderPaid;

fn main() {}
