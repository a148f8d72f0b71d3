use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4, key = customer)]
#[derive(Serialize, Deserialize)]
pub struct Field {
    pub customer: String,
}

#[outbox_event(queue = "orders", partitions = 4, key = r#type)]
#[derive(Serialize, Deserialize)]
pub struct RawField {
    pub r#type: (u8, String),
}

#[outbox_event(queue = "orders", partitions = 4, key = 1)]
#[derive(Serialize, Deserialize)]
pub struct Index(pub f64, pub i64);

#[outbox_event(queue = "orders", partitions = 4, key = Self::order_id)]
#[derive(Serialize, Deserialize)]
pub enum Method {
    Created(i64),
    Shipped { order_id: i64 },
}

impl Method {
    fn order_id(&self) -> i64 {
        match self {
            Self::Created(order_id) | Self::Shipped { order_id } => *order_id,
        }
    }
}

mod keys {
    pub(crate) fn of_order(order: &super::Function) -> (&str, i64) {
        (&order.tenant, order.order_id)
    }
}

#[outbox_event(queue = "orders", partitions = 4, key = crate::keys::of_order)]
#[derive(Serialize, Deserialize)]
pub struct Function {
    pub tenant: String,
    pub order_id: i64,
}

pub async fn emit_all<C: ConnectionTrait>(conn: &C) -> Result<(), EnqueueError> {
    Field {
        customer: "c".into(),
    }
    .emit(conn)
    .await?;
    RawField {
        r#type: (1, "t".into()),
    }
    .emit(conn)
    .await?;
    Index(0.5, 7).emit(conn).await?;
    Method::Created(7).emit(conn).await?;
    Method::Shipped { order_id: 7 }.emit(conn).await?;
    let function = Function {
        tenant: "acme".into(),
        order_id: 7,
    };
    // The future borrows the connection, not the event or its key.
    let emitted = function.emit(conn);
    let enqueued = function.enqueue(conn, &function.tenant);
    drop(function);
    emitted.await?;
    enqueued.await?;
    Ok(())
}

fn main() {}
