#![allow(unused_parens)]

use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = leased, consumer = "event")]
async fn event(event: OrderCreated) {
    let _ = event.order_id;
}

#[outbox_handler(mode = leased, consumer = "message")]
async fn message(message: Message<OrderCreated>) {
    let _ = (message.event.order_id, message.id(), message.key(), message.partition());
    let _ = (message.sequence(), message.attempts(), message.headers(), message.enqueued_at());
}

#[outbox_handler(mode = leased, consumer = "vec")]
async fn vec(events: Vec<OrderCreated>) {
    let _: i64 = events.iter().map(|event| event.order_id).sum();
}

#[outbox_handler(mode = leased, consumer = "vec_of_messages")]
async fn vec_of_messages(messages: Vec<Message<OrderCreated>>) {
    for message in messages {
        let _ = (message.id(), message.event);
    }
}

#[outbox_handler(mode = leased, consumer = "batch")]
async fn batch(mut batch: Batch<'_, OrderCreated>) {
    while let Some(event) = batch.next_msg() {
        if event.order_id > 0 {
            batch.ack();
        } else {
            batch.reject("no such order");
        }
    }
}

#[outbox_handler(mode = leased, consumer = "batch_of_messages")]
async fn batch_of_messages(mut batch: Batch<'_, Message<OrderCreated>>) {
    for message in batch.next_chunk(10) {
        let _ = (message.id(), message.event.order_id);
    }
    batch.ack_chunk(10);
}

// By their paths, in parentheses, and under another name.
type Order = OrderCreated;
use outbox::Message as Msg;

#[outbox_handler(mode = leased, consumer = "paths")]
async fn paths(_: std::vec::Vec<outbox::Message<self::Order>>) {}

#[outbox_handler(mode = leased, consumer = "parentheses")]
#[rustfmt::skip]
async fn parentheses(_: (Vec<(OrderCreated)>)) {}

#[outbox_handler(mode = leased, consumer = "other_names")]
async fn other_names(_: Vec<Msg<Order>>) {}

fn main() {
    let registry = outbox::registry();
    assert_eq!(registry.handlers().len(), 9);
    for handler in registry.handlers() {
        assert_eq!(handler.event(), "OrderCreated", "{handler:?}");
        assert_eq!(handler.queue(), OrderCreated::QUEUE);
    }
    outbox::testing::assert_valid_registry();
}
