//! A handler is a function: a test calls it.

use outbox::prelude::*;
use outbox::testing;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[outbox_handler(mode = leased)]
async fn ship(message: Message<OrderCreated>, State(limit): State<i64>, ctx: &Ctx) -> Result<(), HandlerError> {
    assert_eq!(ctx.message().id(), message.id());
    if message.event.order_id > limit {
        return Err(HandlerError::reject("no such order"));
    }
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "mail")]
pub(crate) async fn mail(events: Vec<OrderCreated>, headers: Headers) -> outcome::Out {
    let tenant = headers.get("tenant").unwrap_or_default();
    outcome::check(events.len() + tenant.len())
}

mod outcome {
    pub(crate) type Out = Result<(), String>;

    pub(crate) fn check(n: usize) -> Out {
        if n > 5 { Err(format!("{n} is too many")) } else { Ok(()) }
    }
}

/// They never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    let Poll::Ready(value) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits");
    };
    value
}

fn main() {
    let message = testing::message(OrderCreated { order_id: 7 }, "ada");
    let ctx = testing::ctx(&message);
    assert!(ctx.remaining().as_secs() > 50);
    assert!(!ctx.cancellation().is_cancelled());
    assert_eq!(ctx.message().key(), b"ada");
    assert_eq!(ctx.message().event_type(), "OrderCreated");
    assert_eq!(ctx.message().payload(), br#"{"order_id":7}"#);
    assert_eq!(message.partition(), OrderCreated::QUEUE.partition_of_key(b"ada"));
    assert_eq!(message.attempts(), 0);
    assert!(now(ship(message.clone(), State(7), &ctx)).is_ok());
    let error = now(ship(message, State(6), &ctx)).unwrap_err();
    assert_eq!(error.to_string(), "no such order");

    let headers = Headers::from_iter([("tenant", "acme")]);
    let message = testing::message_with(OrderCreated { order_id: 7 }, 1, headers);
    assert_eq!(message.headers().get("tenant"), Some("acme"));
    let headers = message.headers().clone();
    assert!(now(mail(vec![message.event], headers)).is_ok());
    let error = now(mail(vec![], Headers::from_iter([("tenant", "seven77")]))).unwrap_err();
    assert_eq!(error, "7 is too many");
}
