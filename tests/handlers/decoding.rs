//! Names and payloads on the wire.

use super::*;
use outbox::{NewMessage, enqueue};
use outbox_tests::every_engine;

#[outbox_event(queue = "wire", partitions = 1, name = "order.v2", aliases = ["order.v1", "Order"])]
#[derive(Serialize, Deserialize)]
struct Order {
    n: i64,
    #[serde(default)]
    note: String,
}

/// Known to this program, and without a handler.
#[outbox_event(queue = "wire", partitions = 1, name = "ignored")]
#[derive(Serialize, Deserialize)]
struct Ignored;

#[outbox_handler(mode = leased, consumer = "each", max_attempts = 2, retry(base = "1ms", max = "1ms"))]
async fn each(event: Order, State(journal): State<Journal>) {
    journal.note(format_args!("each {}{}", event.n, event.note));
}

#[outbox_handler(mode = leased, consumer = "many", max_attempts = 2, retry(base = "1ms", max = "1ms"))]
async fn many(events: Vec<Order>, State(journal): State<Journal>) {
    for event in events {
        journal.note(format_args!("many {}{}", event.n, event.note));
    }
}

#[outbox_handler(mode = transactional, consumer = "tx_each", max_attempts = 2, retry(base = "1ms", max = "1ms"))]
async fn tx_each(event: Order, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    write(tx, "tx_each", event.n).await
}

#[outbox_handler(mode = transactional, consumer = "tx_many", max_attempts = 2, retry(base = "1ms", max = "1ms"))]
async fn tx_many(
    mut batch: Batch<'_, Order>,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    let all = batch.len();
    for event in batch.next_chunk(all) {
        write(tx, "tx_many", event.n).await?;
    }
    batch.ack_chunk(all);
    Ok(())
}

async fn send(db: &TestDb, event_type: &str, payload: &str) {
    let message = NewMessage::new(event_type.to_owned(), "key".to_owned(), payload.to_owned());
    enqueue(db.connection(), &Order::QUEUE, message)
        .await
        .unwrap();
}

#[every_engine]
async fn messages_with_an_earlier_name_are_decoded(db: &TestDb) {
    let journal = Journal::default();
    let running = start(db, outbox::handlers![each, many], &journal).await;
    send(db, "order.v1", r#"{"n":1}"#).await;
    send(db, "Order", r#"{"n":2,"gone":true}"#).await;
    let note = "!".to_owned();
    Order { n: 3, note }
        .enqueue(db.connection(), "key")
        .await
        .unwrap();
    for consumer in ["each ", "many "] {
        journal.reaches(consumer, 3).await;
        assert_eq!(journal.of(consumer), ["1", "2", "3!"]);
    }
    running.stop().await;
}

#[every_engine]
async fn an_unknown_or_undecodable_message_becomes_a_dead_letter_and_the_partition_goes_on(
    db: &TestDb,
) {
    create_ledger(db).await;
    let journal = Journal::default();
    let orders = r#"{"n":"s3cret"}"#;
    for (event_type, payload) in [
        ("order.v2", r#"{"n":1}"#),
        ("order.v2", r#"{"n":2}"#),
        ("order.v2", orders),
        ("order.v2", r#"{"n":3}"#),
        ("order.v2", ""),
        ("order.v1", "{}"),
        ("martian", "7"),
        ("order.v2", r#"{"n":4}"#),
        ("ignored", "null"),
        ("order.v2", r#"{"n":5}"#),
    ] {
        send(db, event_type, payload).await;
    }
    let running = start(
        db,
        outbox::handlers![each, many, tx_each, tx_many],
        &journal,
    )
    .await;
    for consumer in ["each", "many"] {
        journal.reaches(&format!("{consumer} "), 5).await;
        assert_eq!(
            journal.of(&format!("{consumer} ")),
            numbers(1..=5),
            "{consumer}"
        );
    }
    for consumer in ["tx_each", "tx_many"] {
        eventually(consumer, async || ledger(db, consumer).await.len() >= 5).await;
        assert_eq!(
            ledger(db, consumer).await,
            Vec::from_iter(1..=5),
            "{consumer}"
        );
    }
    running.stop().await;
    for consumer in ["each", "many", "tx_each", "tx_many"] {
        assert_eq!(
            letters(db, consumer, "reason").await,
            [
                "its payload is no `order.v2`: the data has another shape at line 1 column 13"
                    .to_owned(),
                "its payload is no `order.v2`: it ends too early at line 1 column 0".to_owned(),
                "its payload is no `order.v2`: field `n` is missing at line 1 column 2".to_owned(),
                format!("consumer `{consumer}` has no handler for event type `martian`"),
            ],
            "{consumer}"
        );
        assert_eq!(
            letters(db, consumer, "attempts").await,
            ["1", "1", "1", "2"],
            "{consumer}"
        );
        assert_eq!(
            letters(db, consumer, "event_type").await,
            ["order.v2", "order.v2", "order.v1", "martian"]
        );
    }
    let kept = "SELECT COUNT(*) FROM outbox_dead_letter WHERE LENGTH(payload) = ";
    assert_eq!(db.number(&format!("{kept}{}", orders.len())).await, 4);
}
