//! Producing: what is written, when, with which ids, and at what cost.

mod budget;
mod concurrent;
mod input;
mod lists;
mod transactions;

use outbox::prelude::*;
use outbox_tests::TestDb;
use sea_orm::Statement;

#[outbox_event(queue = "shop", partitions = 4, name = "order.created", key = order_id)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OrderCreated {
    order_id: i64,
    note: String,
}

impl OrderCreated {
    fn new(order_id: i64) -> Self {
        Self {
            order_id,
            note: format!("note {order_id}"),
        }
    }
}

/// A message as the tables have it.
#[derive(Debug, PartialEq)]
struct Stored {
    id: i64,
    queue_id: i64,
    slot: i16,
    event_type: String,
    key: Vec<u8>,
    payload: Vec<u8>,
    headers: Option<String>,
}

impl Stored {
    fn order(&self) -> i64 {
        let event: OrderCreated = serde_json::from_slice(&self.payload).expect("an order");
        event.order_id
    }
}

/// Every message in incoming with its body, by id.
async fn stored(db: &TestDb) -> Vec<Stored> {
    let backend = db.connection().get_database_backend();
    let key = match backend {
        sea_orm::DbBackend::MySql => "b.`key`",
        _ => "b.key",
    };
    let sql = format!(
        "SELECT i.id, i.queue_id, i.slot, b.event_type, {key}, b.payload, NULLIF(b.headers, '') \
         FROM outbox_incoming i JOIN outbox_body b ON b.id = i.id AND b.queue_id = i.queue_id \
            AND b.slot = i.slot ORDER BY i.id"
    );
    let rows = db
        .connection()
        .query_all_raw(Statement::from_string(backend, sql))
        .await
        .expect("the tables");
    rows.iter()
        .map(|row| Stored {
            id: row.try_get_by_index(0).expect("id"),
            queue_id: row.try_get_by_index(1).expect("queue_id"),
            slot: row.try_get_by_index(2).expect("slot"),
            event_type: row.try_get_by_index(3).expect("event_type"),
            key: row.try_get_by_index(4).expect("key"),
            payload: row.try_get_by_index(5).expect("payload"),
            headers: row.try_get_by_index(6).expect("headers"),
        })
        .collect()
}

async fn bodies(db: &TestDb) -> i64 {
    db.number("SELECT COUNT(*) FROM outbox_body").await
}

async fn incoming(db: &TestDb) -> i64 {
    db.number("SELECT COUNT(*) FROM outbox_incoming").await
}
