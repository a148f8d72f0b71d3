//! The function keeps its visibility, docs and attributes.
#![deny(warnings)]

use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated;

/// With docs.
///
/// More of them.
#[outbox_handler(mode = leased, consumer = "docs")]
#[allow(unused_variables)]
#[must_use = "it must be awaited"]
#[inline]
pub async fn docs(event: OrderCreated) {}

#[outbox_handler(mode = leased, consumer = "old")]
#[deprecated = "use another"]
async fn old(_: OrderCreated) {}

#[outbox_handler(mode = leased, consumer = "absent")]
#[cfg(any())]
async fn absent(_: DoesNotExist) {}

#[cfg_attr(all(), outbox_handler(mode = leased, consumer = "conditional"))]
async fn conditional(_: OrderCreated) {}

#[deprecated]
#[allow(dead_code)]
#[derive(Clone)]
pub struct OldState;

#[allow(deprecated)]
#[outbox_handler(mode = leased, consumer = "old_state")]
async fn old_state(_: OrderCreated, _: State<OldState>) {}

mod shipping {
    use super::OrderCreated;
    use outbox::prelude::*;

    #[outbox_handler(mode = leased, consumer = "wide")]
    pub async fn wide(_: OrderCreated) {}

    #[outbox_handler(mode = leased, consumer = "medium")]
    pub(crate) async fn medium(_: OrderCreated) {}

    #[outbox_handler(mode = leased, consumer = "narrow")]
    pub(super) async fn narrow(_: OrderCreated) {}

    #[outbox_handler(mode = leased, consumer = "in_path")]
    pub(in crate::shipping) async fn in_path(_: OrderCreated) {}

    pub fn all() -> Vec<outbox::HandlerRegistration> {
        outbox::handlers![wide, medium, narrow, in_path].into()
    }
}

fn main() {
    // Type and function are visible together.
    let _ = outbox::handlers![shipping::wide, shipping::medium, shipping::narrow];
    drop((shipping::medium(OrderCreated), shipping::narrow(OrderCreated)));
    drop(docs(OrderCreated));
    let name = concat!(module_path!(), "::shipping::wide");
    assert_eq!(shipping::all()[0].name, name);
    let registry = outbox::registry();
    let consumers: Vec<_> = registry.handlers().iter().map(|handler| handler.consumer).collect();
    assert_eq!(
        consumers,
        ["conditional", "docs", "old", "old_state", "in_path", "medium", "narrow", "wide"]
    );
}
