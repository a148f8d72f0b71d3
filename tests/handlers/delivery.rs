//! One message at a time: what handlers get, and what becomes of what they do.

use super::*;
use outbox::Extract;
use outbox_tests::every_engine;
use std::time::Duration;

#[outbox_event(queue = "delivery", partitions = 4, name = "placed", key = order)]
#[derive(Debug, Serialize, Deserialize)]
struct Placed {
    order: i64,
}

#[derive(Clone)]
pub(super) struct Warehouse(pub(super) &'static str);

#[outbox_handler(mode = leased)]
async fn ship(
    message: Message<Placed>,
    State(Warehouse(warehouse)): State<Warehouse>,
    ctx: &Ctx,
    headers: Headers,
    State(journal): State<Journal>,
) {
    let order = message.event.order;
    assert_eq!(ctx.message().id(), message.id());
    assert!(ctx.remaining() > Duration::ZERO && !ctx.cancellation().is_cancelled());
    assert_eq!(message.key(), order.to_string().as_bytes());
    assert!(message.enqueued_at().elapsed().unwrap_or_default() < Duration::from_secs(600));
    let tenant = headers.get("tenant").unwrap_or("nobody");
    let (id, attempts) = (message.id(), message.attempts());
    journal.note(format_args!(
        "ship {order} of {tenant} from {warehouse}: {id}, {attempts}"
    ));
}

/// Fails once with a failed statement, once by itself, for every third order.
#[outbox_handler(mode = transactional, consumer = "ledger", retry(base = "1ms", max = "1ms"))]
async fn book(message: Message<Placed>, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let order = message.event.order;
    write(tx, "ledger", order).await?;
    if order % 3 == 0 && message.attempts() == 0 {
        tx.execute_unprepared("UPDATE no_such_table SET a = 1")
            .await?;
    }
    if order % 3 == 0 && message.attempts() == 1 {
        return Err(HandlerError::retry("not yet"));
    }
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "stuck")]
async fn stuck(_: Placed, State(journal): State<Journal>) -> Result<(), HandlerError> {
    journal.note("stuck");
    let hour = Duration::from_secs(3600);
    Err(HandlerError::retry_after(hour, "the printer is on fire"))
}

/// The customer of an order.
struct Tenant(String);

impl Extract<'_> for Tenant {
    fn extract(ctx: &Ctx) -> Result<Self, HandlerError> {
        match ctx.message().headers().get("tenant") {
            Some(tenant) => Ok(Self(tenant.to_owned())),
            None => Err(HandlerError::reject("it has no header `tenant`")),
        }
    }
}

#[outbox_handler(mode = leased, consumer = "invoices")]
async fn invoice(_: Placed, Tenant(tenant): Tenant, State(journal): State<Journal>) {
    journal.note(format_args!("invoice {tenant}"));
}

#[outbox_handler(mode = transactional, consumer = "tx_invoices")]
async fn tx_invoice(_: Vec<Placed>, Tenant(tenant): Tenant, State(journal): State<Journal>) {
    journal.note(format_args!("tx_invoice {tenant}"));
}

#[every_engine]
async fn an_extractor_that_fails_decides_what_becomes_of_the_message(db: &TestDb) {
    let journal = Journal::default();
    let running = start(db, outbox::handlers![invoice, tx_invoice], &journal).await;
    Placed { order: 1 }
        .enqueue(db.connection(), "key")
        .await
        .unwrap();
    let options = EnqueueOptions::new().header("tenant", "acme");
    let told = Placed { order: 2 };
    told.enqueue_with(db.connection(), "key", options)
        .await
        .unwrap();
    journal.reaches("invoice ", 1).await;
    journal.reaches("tx_invoice ", 1).await;
    running.stop().await;
    for (handler, consumer) in [("invoice ", "invoices"), ("tx_invoice ", "tx_invoices")] {
        assert_eq!(journal.of(handler), ["acme"]);
        let reasons = letters(db, consumer, "reason").await;
        assert_eq!(reasons, ["it has no header `tenant`"], "{consumer}");
    }
}

#[every_engine]
async fn a_leased_handler_gets_everything_it_asks_for(db: &TestDb) {
    let journal = Journal::default();
    let running = builder(db, outbox::handlers![ship], &journal)
        .state(Warehouse("Bremen"))
        .start()
        .await
        .unwrap();
    let plain = Placed { order: 7 }.emit(db.connection()).await.unwrap();
    let options = EnqueueOptions::new().header("tenant", "acme");
    let told = Placed { order: 8 };
    let told = told
        .enqueue_with(db.connection(), 8, options)
        .await
        .unwrap();
    journal.reaches("ship", 2).await;
    running.stop().await;
    let mut notes = journal.all();
    notes.sort();
    assert_eq!(
        notes,
        [
            format!("ship 7 of nobody from Bremen: {plain}, 0"),
            format!("ship 8 of acme from Bremen: {told}, 0"),
        ]
    );
}

#[every_engine]
async fn the_writes_of_a_transactional_handler_happen_once(db: &TestDb) {
    create_ledger(db).await;
    let journal = Journal::default();
    let running = start(db, outbox::handlers![book], &journal).await;
    for order in 1..=20 {
        Placed { order }.emit(db.connection()).await.unwrap();
    }
    eventually("20 rows", async || ledger(db, "ledger").await.len() >= 20).await;
    running.stop().await;
    assert_eq!(ledger(db, "ledger").await, Vec::from_iter(1..=20));
}

#[every_engine]
async fn consumers_do_not_wait_for_each_other(db: &TestDb) {
    create_ledger(db).await;
    let journal = Journal::default();
    let running = start(db, outbox::handlers![book, stuck], &journal).await;
    for order in 1..=20 {
        Placed { order }
            .enqueue(db.connection(), "one key")
            .await
            .unwrap();
    }
    eventually("20 rows", async || ledger(db, "ledger").await.len() >= 20).await;
    journal.reaches("stuck", 1).await;
    running.stop().await;
    assert_eq!(
        journal.all().len(),
        1,
        "a retry waits, and holds its key up"
    );
    let reason = "SELECT last_error FROM outbox_attempt WHERE consumer = 'stuck'";
    assert_eq!(db.texts(reason).await, ["the printer is on fire"]);
}
