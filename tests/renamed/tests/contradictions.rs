//! Handlers and events that contradict each other are found before anything is registered, and the
//! error names both source lines. A program of its own: they would spoil every other test.

use bus::prelude::*;
use bus::sea_orm::Database;

#[outbox_event(queue = "orders", partitions = 4, name = "placed", crate = bus)]
#[derive(Serialize, Deserialize)]
struct Placed;

/// The name of another.
#[outbox_event(queue = "orders", partitions = 4, aliases = ["placed"], crate = bus)]
#[derive(Serialize, Deserialize)]
struct Ordered;

/// The same name in another queue is another event.
#[outbox_event(queue = "returns", partitions = 2, name = "placed", crate = bus)]
#[derive(Serialize, Deserialize)]
struct Returned;

#[outbox_handler(mode = leased, crate = bus)]
async fn ship(_: Placed) {}

/// A second handler of its event in its consumer.
#[outbox_handler(mode = leased, crate = bus)]
async fn ship_again(_: Vec<Placed>) {}

#[outbox_handler(mode = leased, consumer = "ledger", crate = bus)]
async fn book(_: Placed) {}

/// A second mode in its consumer.
#[outbox_handler(mode = transactional, consumer = "ledger", crate = bus)]
async fn book_order(_: Ordered, _: &DatabaseTransaction) {}

/// The same consumer's name in another queue is another consumer.
#[outbox_handler(mode = transactional, consumer = "ledger", crate = bus)]
async fn take_back(_: Returned) {}

const FILE: &str = file!();

fn place(name: &str, line: u32) -> String {
    format!("`contradictions::{name}` ({FILE}:{line})")
}

fn expected() -> [String; 4] {
    let (placed, ordered) = (place("Placed", 7), place("Ordered", 12));
    let (ship, ship_again) = (place("ship", 21), place("ship_again", 25));
    let (book, book_order) = (place("book", 28), place("book_order", 32));
    [
        // Events are told in the order of their names.
        format!(
            "two events of queue `orders` are called `placed`: {ordered} and {placed}; give one \
             another `name`"
        ),
        format!(
            "consumer `default` of queue `orders` has two handlers of `placed`: {ship} and \
             {ship_again}; give one of them another `consumer`"
        ),
        format!(
            "consumer `ledger` of queue `orders` has two modes: leased by {book}, transactional by \
             {book_order}; give one of them another `consumer`"
        ),
        // As an alias of its event.
        format!(
            "consumer `ledger` of queue `orders` has two handlers of `placed`: {book} and \
             {book_order}; give one of them another `consumer`"
        ),
    ]
}

#[tokio::test]
async fn contradictions_are_reported_at_the_start_with_both_places() {
    let db = Database::connect("sqlite::memory:").await.unwrap();
    bus::migrate(&db).await.unwrap();
    let error = Outbox::builder(db.clone()).start().await.err().unwrap();
    let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected());
    let error = bus::register(&db).await.unwrap_err();
    assert_eq!(error.problems().len(), 4);
}

#[tokio::test]
async fn handlers_that_do_not_run_contradict_no_other() {
    let db = Database::connect("sqlite::memory:").await.unwrap();
    bus::migrate(&db).await.unwrap();
    let picked = Outbox::builder(db)
        .without_discovery()
        .handlers(bus::handlers![ship, take_back]);
    let error = picked.start().await.err().unwrap();
    let problems: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems, expected()[..1], "the events are what they are");
}

#[test]
fn a_test_of_the_users_own_fails_with_the_same() {
    assert_eq!(bus::registry().problems(), expected());
    let panic = std::panic::catch_unwind(bus::testing::assert_valid_registry).unwrap_err();
    let text = panic.downcast_ref::<String>().expect("a text");
    for problem in expected() {
        assert!(text.contains(&problem), "{problem} is not in {text}");
    }
}
