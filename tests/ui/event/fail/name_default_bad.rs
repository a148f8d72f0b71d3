use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct Größe;

fn main() {}
