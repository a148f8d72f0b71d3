//! What is linked into the program, for tests and tools.

use outbox::{Mode, registry};

#[test]
fn the_registry_lists_everything_and_is_consistent() {
    outbox::testing::assert_valid_registry();
    let registry = registry();
    assert_eq!(registry.problems(), [] as [String; 0]);
    let queues: Vec<_> = registry
        .queues()
        .iter()
        .map(|queue| queue.name().to_owned())
        .collect();
    assert_eq!(
        queues,
        [
            "accounts", "batches", "delivery", "grants", "jobs", "news", "parcels", "requests",
            "talk", "wire"
        ]
    );
    let events: Vec<_> = registry.events().iter().map(|event| event.name).collect();
    assert!(
        events.contains(&"order.v2") && events.contains(&"shredded"),
        "{events:?}"
    );

    let consumers = registry.consumers();
    let tx = consumers
        .iter()
        .find(|consumer| consumer.name == "tx")
        .expect("a consumer");
    assert_eq!(
        (tx.queue.name(), tx.mode),
        ("accounts", Mode::Transactional)
    );
    let handlers: Vec<_> = tx
        .handlers
        .iter()
        .map(|handler| (handler.name, handler.event()))
        .collect();
    assert_eq!(
        handlers,
        [
            ("handlers::order::tx_deposits", "deposited"),
            ("handlers::order::tx_withdrawn", "withdrawn"),
        ]
    );
    let defaults = consumers
        .iter()
        .filter(|consumer| consumer.name == "default");
    assert_eq!(defaults.count(), 5, "one for each queue");
    let handlers: usize = consumers
        .iter()
        .map(|consumer| consumer.handlers.len())
        .sum();
    assert_eq!(handlers, registry.handlers().len());
    let sorted = registry.handlers().is_sorted_by_key(|handler| handler.name);
    assert!(
        sorted
            && registry
                .events()
                .is_sorted_by_key(|event| event.queue.name().to_owned())
    );
}
