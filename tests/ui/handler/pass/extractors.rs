use outbox::prelude::*;
use outbox::{Extract, StateType};
use std::sync::Arc;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}

#[derive(Clone)]
pub struct Warehouse {
    name: String,
}

trait Clock: Send + Sync {}

#[outbox_handler(mode = leased, consumer = "all")]
async fn all(
    OrderCreated { order_id }: OrderCreated,
    State(Warehouse { name }): State<Warehouse>,
    State(clock): State<Arc<dyn Clock>>,
    ctx: &Ctx,
    headers: Headers,
    State(pair): State<(i64, String)>,
) {
    let _ = (order_id, name, clock, ctx.message().id(), ctx.cancellation(), ctx.remaining(), headers, pair);
}

#[outbox_handler(mode = leased, consumer = "mutable")]
async fn mutable(
    mut event: OrderCreated,
    mut headers: Headers,
    State(mut warehouse): State<Warehouse>,
    #[allow(unused_variables)] ctx: &Ctx,
) {
    event.order_id += 1;
    headers = headers.clone();
    warehouse.name.push_str("!");
    drop((event, headers, warehouse));
}

#[outbox_handler(mode = leased, consumer = "contexts")]
async fn contexts(_: Vec<OrderCreated>, a: &Ctx, b: &'_ outbox::Ctx) {
    assert_eq!(a.message().id(), b.message().id());
}

/// Who an order is for.
pub struct Tenant(String);

impl Extract<'_> for Tenant {
    fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
        match ctx.message().headers().get("tenant") {
            Some(tenant) => Ok(Self(tenant.to_owned())),
            None => Err(HandlerError::reject("it has no header `tenant`")),
        }
    }
}

/// Borrows of the context.
pub struct Key<'a>(&'a [u8]);

impl<'a> Extract<'a> for Key<'a> {
    fn extract(ctx: &'a Ctx) -> Result<Self, HandlerError> {
        Ok(Self(ctx.message().key()))
    }
}

/// Made of a state, and says so.
pub struct Stock(i64);

impl Extract<'_> for Stock {
    fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
        let State((stock, _)) = State::<(i64, String)>::extract(ctx)?;
        Ok(Self(stock))
    }

    fn requires() -> Vec<StateType> {
        vec![StateType::of::<(i64, String)>()]
    }
}

#[outbox_handler(mode = transactional, consumer = "own")]
async fn own(_: OrderCreated, Tenant(tenant): Tenant, key: Key<'_>, stock: Stock, tx: &DatabaseTransaction) {
    let _ = (tenant, key.0, stock.0, tx);
}

fn main() {
    assert_eq!(outbox::registry().handlers().len(), 4);
}
