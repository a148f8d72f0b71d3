use outbox::prelude::*;

#[outbox_event(queue = "clock", partitions = 64)]
#[derive(Serialize, Deserialize)]
pub struct Midnight;

fn main() {
    assert_eq!(Midnight::QUEUE.partitions().count(), 64);
}
