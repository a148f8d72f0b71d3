const THREE: u32 = 3;

outbox::queue!(pub Orders = "orders", partitions = THREE);

#[outbox::outbox_event(queue = Orders)]
#[derive(serde::Serialize, serde::Deserialize)]
pub struct OrderCreated;

fn main() {}
