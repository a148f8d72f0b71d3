#![allow(dead_code, non_snake_case)]

// Everything generated code could mean by a short name means something else here.
mod shadows {
    pub struct Result;
    pub struct Option;
    pub struct String;
    pub struct Vec;
    pub struct Box;
    pub struct Queue;
    pub struct Partitions;
    pub struct EnqueueError;
    pub trait Send {}
    pub trait Future {}
    pub trait Borrow {}
    pub trait IntoIterator {}
    pub trait Event {}
    pub trait EventKey {}
    pub fn enqueue() {}
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
concat!();
file!();

#[::outbox::outbox_event(
    queue = "orders",
    partitions = 4,
    aliases = ["old"],
    key = C,
    max_payload = 10 + 10,
)]
#[derive(::serde::Serialize, ::serde::Deserialize)]
#[serde(crate = "::serde")]
pub struct OrderCreated {
    pub C: i64,
}

::outbox::queue!(K = "keys", partitions = 1);

#[::outbox::outbox_event(queue = K)]
#[derive(::serde::Serialize, ::serde::Deserialize)]
pub struct C;

fn main() {
    ::std::assert_eq!(<C as ::outbox::Event>::NAME, "C");
}
