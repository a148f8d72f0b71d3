#![allow(dead_code, non_snake_case)]

// Everything generated code could mean by a short name means something else here.
mod shadows {
    pub struct Result;
    pub struct Option;
    pub struct String;
    pub struct Vec;
    pub struct Box;
    pub struct Ok;
    pub struct Err;
    pub struct Some;
    pub struct None;
    pub struct Mode;
    pub struct HandlerRegistration;
    pub struct HandlerOptions;
    pub trait Send {}
    pub trait Future {}
    pub trait Extract {}
    pub trait Outcome {}
    pub trait OutboxHandler {}
    pub fn run() {}
    pub fn leased_each() {}
    pub fn concat() {}
    pub mod core {}
    pub mod std {}
    pub mod outbox {}
    pub mod inventory {}
}
#[allow(unused_imports)]
use shadows::*;

macro_rules! concat {
    () => {};
}
macro_rules! file {
    () => {};
}
macro_rules! vec {
    () => {};
}
concat!();
file!();
vec!();

#[::outbox::outbox_event(queue = "orders", partitions = 4)]
#[derive(::serde::Serialize, ::serde::Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[::outbox::outbox_handler(mode = leased, retry(base = "1s"), lease = "1m", batch = 2)]
async fn ship(
    _: OrderCreated,
    _: ::outbox::State<i64>,
    __ctx: &::outbox::Ctx,
    __message: ::outbox::Headers,
) -> ::std::result::Result<(), ::outbox::HandlerError> {
    ::std::result::Result::Ok(())
}

#[::outbox::outbox_handler(mode = transactional, consumer = "book")]
async fn book(_: ::std::vec::Vec<OrderCreated>, __tx: &::outbox::sea_orm::DatabaseTransaction) {}

#[::outbox::outbox_handler(mode = leased, consumer = "run")]
async fn make(mut batch: ::outbox::Batch<'_, ::outbox::Message<OrderCreated>>) {
    batch.ack();
}

fn main() {
    ::std::assert_eq!(::outbox::registry().handlers().len(), 3);
    ::outbox::testing::assert_valid_registry();
}
