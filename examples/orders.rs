//! Orders are placed and their events enqueued in the same transaction.
//!
//! `cargo run --example orders` needs nothing: it uses SQLite in a temporary
//! file. `DATABASE_URL=postgres://…` or `mysql://…` runs it there instead.

use outbox::prelude::*;
use sea_orm::{DbErr, Statement};

#[outbox_event(queue = "orders", partitions = 4, name = "order.created", key = customer)]
#[derive(Debug, Serialize, Deserialize)]
struct OrderCreated {
    order_id: i64,
    customer: String,
    total_cents: i64,
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
    let before = waiting(db).await?;

    for (order_id, customer) in [(1, "ada"), (2, "grace"), (3, "ada")] {
        let tx = db.begin().await?;
        let id = place(&tx, order_id, customer).await?;
        tx.commit().await?;
        println!("committed  order {order_id} of {customer}, its event is message {id}");
    }

    let tx = db.begin().await?;
    place(&tx, 4, "grace").await?;
    tx.rollback().await?;
    println!("rolled back order 4: neither the order nor its event exists");

    let events = waiting(db).await? - before;
    let orders = count(db, "SELECT COUNT(*) FROM example_order").await?;
    println!("result     {orders} orders, {events} events waiting to be delivered");
    db.execute_unprepared("DROP TABLE example_order").await?;
    if orders != events {
        return Err("every order must have its event".into());
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

async fn waiting(db: &DatabaseConnection) -> Result<i64, DbErr> {
    count(db, "SELECT COUNT(*) FROM outbox_incoming").await
}

async fn count(db: &DatabaseConnection, sql: &str) -> Result<i64, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    row.map_or(Ok(0), |row| row.try_get_by_index(0))
}
