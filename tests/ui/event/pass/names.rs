#![allow(non_camel_case_types, uncommon_codepoints)]

use outbox::prelude::*;

#[outbox_event(
    queue = "Order.Queue_v2-x",
    partitions = 4,
    name = "order.created-v2_x",
    aliases = ["OrderPlaced", "order.v0"],
)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct r#yield;

#[outbox_event(queue = "orders", partitions = 4, name = "size")]
#[derive(Serialize, Deserialize)]
pub struct Größe;

fn main() {
    assert_eq!(OrderCreated::NAME, "order.created-v2_x");
    assert_eq!(OrderCreated::ALIASES, ["OrderPlaced", "order.v0"]);
    assert_eq!(r#yield::NAME, "yield");
    assert_eq!(Größe::NAME, "size");
}
