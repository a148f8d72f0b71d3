//! The whole story, checked as it goes. Orders are placed with their events, and one is
//! rolled back. A ledger gets each order exactly once. A warehouse fails and recovers. An order
//! that can never be shipped becomes a dead letter, is repaired and requeued. A worker is killed in
//! the middle of its work. The program prints a line for each thing that happens: a word, what it
//! was, and what it proves.
//!
//! `cargo run --example orders` needs no set-up: it uses SQLite in a temporary file.
//! `DATABASE_URL=postgres://…` or `mysql://…` runs it there instead.

use outbox::prelude::*;
use outbox::{DeadLetterFilter, DeadLetterScope, DeadLetterStatus, OutboxHandle};
use outbox_examples::warehouse::Warehouse;
use outbox_examples::{ExampleDb, connect, count, eventually, prove, say, table};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

#[outbox_event(queue = "orders", partitions = 4, name = "order.created", key = customer)]
#[derive(Debug, Serialize, Deserialize)]
struct OrderCreated {
    order_id: i64,
    customer: String,
    address: String,
    total_cents: i64,
}

/// At least once, outside any transaction: a side effect outside this database.
#[outbox_handler(mode = leased, retry(base = "300ms", max = "1s"), lease = "2s")]
async fn ship(
    order: Message<OrderCreated>,
    State(warehouse): State<Warehouse>,
) -> Result<(), HandlerError> {
    if order.event.address.is_empty() {
        return Err(HandlerError::reject("it has no address"));
    }
    warehouse
        .ship(order.event.order_id, order.attempts())
        .await?; // an error is a retry
    Ok(())
}

/// Exactly once with the database: the entry commits with the acknowledgement.
#[outbox_handler(mode = transactional, consumer = "ledger")]
async fn book(order: OrderCreated, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let OrderCreated {
        order_id,
        total_cents,
        ..
    } = order;
    let entry = format!("INSERT INTO example_ledger VALUES ({order_id}, {total_cents})");
    tx.execute_unprepared(&entry).await?;
    prove(
        "booked",
        format!("order {order_id}"),
        "the entry commits with the acknowledgement",
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(url) = std::env::var("ORDERS_WORKER") {
        return worker(&url).await;
    }
    let example = connect().await?;
    let db = &example.db;
    say("database", format!("{:?}", db.get_database_backend()));
    outbox::migrate(db).await?;
    table(db, "example_order", "id BIGINT PRIMARY KEY, total BIGINT").await?;
    table(db, "example_ledger", "order_id BIGINT, total BIGINT").await?;
    let warehouse = Warehouse::default();

    let running = start(db, &warehouse).await?;
    let before = pending_letters(&running).await?; // of an earlier run, if any
    for (order_id, customer) in [(1, "ada"), (2, "grace"), (3, "ada"), (4, "grace")] {
        place(db, order_id, customer, "Main Street 1").await?;
    }
    roll_back(db).await?;
    eventually("four shipments", async || {
        warehouse.shipped().starts_with(&[1, 2, 3, 4])
    })
    .await?;

    poison(db, &warehouse, &running).await?;
    running.stop().await;
    let running = take_over(&example, &warehouse).await?;

    let checked = summary(db, before, &warehouse, &running).await;
    running.stop().await;
    checked
}

/// Delivers: every handler in this program is found.
async fn start(
    db: &DatabaseConnection,
    warehouse: &Warehouse,
) -> Result<OutboxHandle, outbox::StartError> {
    Outbox::builder(db.clone())
        .profile(OutboxProfile::low_latency())
        .state(warehouse.clone())
        .start()
        .await
}

/// An order and its event, in one transaction.
async fn place(
    db: &DatabaseConnection,
    order_id: i64,
    customer: &str,
    address: &str,
) -> Result<(), Box<dyn Error>> {
    let tx = db.begin().await?;
    write(&tx, order_id, customer, address).await?;
    tx.commit().await?;
    let what = format!("order {order_id} of {customer}");
    match address {
        "" => prove(
            "committed",
            what + ", without an address",
            "it cannot be shipped",
        ),
        _ => prove("committed", what, "the order and its event, together"),
    }
    Ok(())
}

/// A function of the user's own, generic over transactions and connections.
async fn write<C: ConnectionTrait>(
    conn: &C,
    order_id: i64,
    customer: &str,
    address: &str,
) -> Result<(), Box<dyn Error>> {
    let insert = format!("INSERT INTO example_order VALUES ({order_id}, 1999)");
    conn.execute_unprepared(&insert).await?;
    let event = OrderCreated {
        order_id,
        customer: customer.to_owned(),
        address: address.to_owned(),
        total_cents: 1999,
    };
    event.emit(conn).await?;
    Ok(())
}

async fn roll_back(db: &DatabaseConnection) -> Result<(), Box<dyn Error>> {
    let tx = db.begin().await?;
    write(&tx, 5, "ada", "Main Street 1").await?;
    tx.rollback().await?;
    prove("rolled back", "order 5 of ada", "no handler ever sees it");
    Ok(())
}

/// An order that cannot be shipped becomes a dead letter; its customer's next order is not held up.
/// Then an operator looks at it, repairs it and sends it again.
async fn poison(
    db: &DatabaseConnection,
    warehouse: &Warehouse,
    running: &OutboxHandle,
) -> Result<(), Box<dyn Error>> {
    let before = pending_letters(running).await?;
    place(db, 6, "ada", "").await?;
    place(db, 7, "ada", "Main Street 1").await?;
    eventually("order 7", async || warehouse.shipped().contains(&7)).await?;
    eventually("a dead letter", async || {
        pending_letters(running).await.ok() > Some(before)
    })
    .await?;
    let letters = running.outbox().dead_letters().of::<OrderCreated>();
    let pending = DeadLetterFilter::new().status(DeadLetterStatus::Pending);
    let letter = letters
        .list(&pending)
        .await?
        .pop()
        .ok_or("no letter")?
        .letter;
    prove(
        "dead letter",
        format!("order 6: {}", letter.reason),
        "its partition went on: order 7 is shipped",
    );
    let repaired = letters.requeue_with(DeadLetterScope::letters([letter.id]), |order| {
        let address = "Side Street 2".to_owned();
        OrderCreated { address, ..order }
    });
    repaired.await?;
    prove(
        "repaired",
        "order 6 has an address now",
        "it goes to the consumer that failed, again",
    );
    Ok(eventually("order 6", async || warehouse.shipped().contains(&6)).await?)
}

async fn pending_letters(running: &OutboxHandle) -> Result<u64, Box<dyn Error>> {
    let pending = DeadLetterFilter::new().status(DeadLetterStatus::Pending);
    Ok(running.outbox().dead_letters().count(&pending).await?)
}

/// Another process claims an order, and dies before it has handled it; this process takes over.
async fn take_over(
    example: &ExampleDb,
    warehouse: &Warehouse,
) -> Result<OutboxHandle, Box<dyn Error>> {
    place(&example.db, 8, "grace", "Main Street 1").await?;
    let mut worker = Command::new(std::env::current_exe()?)
        .env("ORDERS_WORKER", &example.url)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = worker.stdout.take().ok_or("the worker has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    print!("{line}");
    worker.kill()?;
    worker.wait()?;
    let killed = Instant::now();
    let what = format!("process {}, with -9", worker.id());
    prove("killed", what, "it could not say goodbye");
    let running = start(&example.db, warehouse).await?;
    eventually("the order left behind", async || {
        warehouse.shipped().contains(&8)
    })
    .await?;
    prove(
        "taken over",
        format!("{:.1} s after its death", killed.elapsed().as_secs_f64()),
        "its lease of 2 s had to end first",
    );
    Ok(running)
}

/// The other process: it hangs with the first order it gets.
async fn worker(url: &str) -> Result<(), Box<dyn Error>> {
    let db = outbox_examples::open(url).await?;
    let running = Outbox::builder(db)
        .state(Warehouse::that_hangs())
        .consumers(["default"])
        .start()
        .await?;
    std::future::pending::<()>().await;
    running.stop().await;
    Ok(())
}

/// What was promised, counted.
async fn summary(
    db: &DatabaseConnection,
    before: u64,
    warehouse: &Warehouse,
    running: &OutboxHandle,
) -> Result<(), Box<dyn Error>> {
    let orders = count(db, "example_order").await?;
    eventually("the ledger", async || {
        count(db, "example_ledger").await.ok() >= Some(orders)
    })
    .await?;
    let entries = count(db, "example_ledger").await?;
    let different = "(SELECT DISTINCT order_id FROM example_ledger) AS entries";
    let twice = entries - count(db, different).await?;
    let shipped = warehouse.shipped().len() as u64;
    let buried = pending_letters(running).await? - before;
    println!();
    println!("  consumer   committed   delivered   dead letters   booked twice");
    println!(
        "  ledger     {orders:>9}   {entries:>9}   {:>12}   {twice:>12}",
        0
    );
    println!("  default    {orders:>9}   {shipped:>9}   {buried:>12}");
    println!();
    if entries != orders || twice != 0 || shipped + buried != orders {
        return Err("committed must be delivered or in dead letters, and booked once".into());
    }
    say(
        "checked",
        "committed = delivered + dead letters, for every consumer",
    );
    Ok(())
}
