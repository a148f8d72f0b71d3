//! Orders are placed, their events enqueued in the same transaction, and delivered.
//!
//! `cargo run --example orders` needs nothing: it uses SQLite in a temporary
//! file. `DATABASE_URL=postgres://…` or `mysql://…` runs it there instead.

use outbox::LeasedMessageHandler;
use outbox::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[outbox_event(queue = "orders", partitions = 4, name = "order.created", key = customer)]
#[derive(Debug, Serialize, Deserialize)]
struct OrderCreated {
    order_id: i64,
    customer: String,
    total_cents: i64,
}

/// Ships an order. The first attempt of order 2 fails, so it is made again.
#[derive(Clone, Default)]
struct Ship {
    shipped: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Ship {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let event: OrderCreated = match serde_json::from_slice(message.payload()) {
            Ok(event) => event,
            Err(error) => return HandlerResult::reject(error),
        };
        if event.order_id == 2 && message.attempts() == 0 {
            println!("failed     order 2, the warehouse is closed; it will be tried again");
            return HandlerResult::retry_after(Duration::from_millis(300), "warehouse closed");
        }
        println!("delivered  order {} of {}", event.order_id, event.customer);
        self.shipped.fetch_add(1, Ordering::SeqCst);
        HandlerResult::Success
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let example = outbox_examples::connect().await?;
    let db = &example.db;
    println!("database   {:?}", db.get_database_backend());
    outbox::migrate(db).await?;
    println!("migrated   the outbox tables are there");
    db.execute_unprepared("DROP TABLE IF EXISTS example_order")
        .await?;
    db.execute_unprepared("CREATE TABLE example_order (id BIGINT PRIMARY KEY, total BIGINT)")
        .await?;

    let ship = Ship::default();
    let running = Outbox::builder(db.clone())
        .queue("orders", OrderCreated::QUEUE.partitions())
        .leased(ship.clone())
        .start()
        .await?;

    let orders = [(1, "ada"), (2, "grace"), (3, "ada"), (4, "grace")];
    for (order_id, customer) in orders {
        let tx = db.begin().await?;
        let id = place(&tx, order_id, customer).await?;
        tx.commit().await?;
        println!("committed  order {order_id} of {customer}, its event is message {id}");
    }
    let tx = db.begin().await?;
    place(&tx, 5, "ada").await?;
    tx.rollback().await?;
    println!("rolled back order 5: neither the order nor its event exists");

    let deadline = Instant::now() + Duration::from_secs(20);
    while ship.shipped.load(Ordering::SeqCst) < orders.len() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.stop().await;
    db.execute_unprepared("DROP TABLE example_order").await?;
    let shipped = ship.shipped.load(Ordering::SeqCst);
    println!("result     {} committed, {shipped} delivered", orders.len());
    if shipped != orders.len() {
        return Err("every committed order must be delivered".into());
    }
    Ok(())
}

/// A function of the user's own, generic over transaction and connection.
async fn place<C: ConnectionTrait>(
    conn: &C,
    order_id: i64,
    customer: &str,
) -> Result<OutboxMessageId, Box<dyn std::error::Error>> {
    let insert = format!("INSERT INTO example_order (id, total) VALUES ({order_id}, 1999)");
    conn.execute_unprepared(&insert).await?;
    let event = OrderCreated {
        order_id,
        customer: customer.to_owned(),
        total_cents: 1999,
    };
    Ok(event.emit(conn).await?)
}
