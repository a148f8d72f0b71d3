use outbox::prelude::*;

const PARTITIONS: u32 = 4;
const KIB: usize = 1024;

const fn double(count: u32) -> u32 {
    count * 2
}

#[outbox_event(queue = "orders", partitions = PARTITIONS, max_payload = 128 * KIB)]
#[derive(Serialize, Deserialize)]
pub struct Named;

#[outbox_event(queue = "orders", partitions = double(PARTITIONS), max_payload = 16_777_216)]
#[derive(Serialize, Deserialize)]
pub struct Called;

#[outbox_event(queue = "orders", partitions = Self::COUNT, max_payload = Self::LIMIT)]
#[derive(Serialize, Deserialize)]
pub struct Own;

impl Own {
    const COUNT: u32 = 1 << 5;
    const LIMIT: usize = 1;
}

#[outbox_event(queue = "orders", partitions = 0x10_usize)]
#[derive(Serialize, Deserialize)]
pub struct Hexadecimal;

fn main() {
    assert_eq!(Named::QUEUE.partitions().count(), 4);
    assert_eq!(Named::MAX_PAYLOAD, 131_072);
    assert_eq!(Called::QUEUE.partitions().count(), 8);
    assert_eq!(Called::MAX_PAYLOAD, 16_777_216);
    assert_eq!(Own::QUEUE.partitions().count(), 32);
    assert_eq!(Own::MAX_PAYLOAD, 1);
    assert_eq!(Hexadecimal::QUEUE.partitions().count(), 16);
}
