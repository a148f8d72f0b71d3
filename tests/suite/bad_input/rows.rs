//! Rows straight in the tables, made at random.

use super::*;
use outbox::prelude::*;
use outbox::{Ctx, DeadLetterFilter, LeasedMessageHandler, NewMessage, OutboxMessage, RetryPolicy};
use outbox_tests::{eventually, every_engine};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use proptest::{collection, option, prop_oneof, string};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Remembers whole messages.
#[derive(Clone, Default)]
struct SeenMessages(Arc<Mutex<BTreeMap<i64, OutboxMessage>>>);

#[async_trait::async_trait]
impl LeasedMessageHandler for SeenMessages {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let id = message.id().get();
        self.0.lock().unwrap().insert(id, message.clone());
        HandlerResult::Success
    }
}

/// Tried once more, and then a dead letter.
fn impatient() -> RetryPolicy {
    RetryPolicy {
        max_attempts: 2,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
        jitter: false,
    }
}

/// Rows of the queue: its types and others, any bytes, headers that are none.
fn rows(count: usize) -> Vec<Row> {
    let text = |pattern| string::string_regex(pattern).expect("a pattern");
    let bytes = || collection::vec(proptest::num::u8::ANY, 0..200);
    let event_type = prop_oneof![text("known"), text("[a-z🦀é' ]{1,20}")];
    // JSON of the wrong shape, and what is no JSON.
    let headers = prop_oneof![
        text(r#"\{"a":"b"\}"#),
        text(r#"[\[\]{}":,0-9a-z🦀\\']{0,40}"#),
    ];
    // Of keys, of partitions chosen by hand, and such as no producer of ours writes.
    let slots = prop_oneof![0..16_384_i16, 16_384..16_388_i16, -9..0_i16];
    let row = (event_type, bytes(), bytes(), option::of(headers), slots);
    let row = row.prop_map(|(event_type, key, payload, headers, slot)| Row {
        event_type,
        key,
        payload,
        headers,
        target: None,
        queue_id: QUEUE.id(),
        slot,
    });
    let mut runner = TestRunner::deterministic();
    let mut row = || row.new_tree(&mut runner).expect("a row").current();
    (0..count).map(|_| row()).collect()
}

#[every_engine]
async fn random_rows_are_delivered_unchanged_or_become_dead_letters(db: &TestDb) {
    let mut rows: BTreeMap<i64, Row> = BTreeMap::new();
    for row in self::rows(120) {
        rows.insert(insert(db, &row).await, row);
    }
    let known: BTreeSet<i64> = rows
        .iter()
        .filter(|(_, row)| row.event_type == "known")
        .map(|(id, _)| *id)
        .collect();
    assert!(!known.is_empty() && known.len() < rows.len());
    let kept = SeenMessages::default();
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .event_types(["known"])
        .retry(impatient())
        .leased(kept.clone())
        .start()
        .await
        .unwrap();
    let letters = running.outbox().dead_letters();
    let unknown = u64::try_from(rows.len() - known.len()).unwrap();
    eventually("all that is unknown", async || {
        running.stats().await.unwrap();
        letters.count(&DeadLetterFilter::new()).await.unwrap() == unknown
    })
    .await;
    // Something good behind it all arrives as ever.
    let good = NewMessage::new("known", 1, "good");
    let good = outbox::enqueue(db.connection(), &QUEUE, good)
        .await
        .unwrap()
        .get();
    eventually("the good one", async || {
        kept.0.lock().unwrap().contains_key(&good)
    })
    .await;
    running.stop().await;

    let kept = kept.0.lock().unwrap().clone();
    assert!(kept.keys().filter(|id| **id != good).eq(known.iter()));
    for id in &known {
        let (row, message) = (&rows[id], &kept[id]);
        assert_eq!(
            (message.key(), message.payload()),
            (&*row.key, &*row.payload)
        );
        // Headers that are none are left out.
        let fine = row.headers.as_deref() == Some(r#"{"a":"b"}"#);
        assert_eq!(message.headers().get("a"), fine.then_some("b"), "{row:?}");
    }
    for letter in letters
        .list(&DeadLetterFilter::new().limit(1_000))
        .await
        .unwrap()
    {
        let row = &rows[&letter.message_id.get()];
        assert_eq!((&letter.key, &letter.payload), (&row.key, &row.payload));
        assert_eq!(letter.event_type, row.event_type);
        assert!(letter.reason.contains("no handler"), "{}", letter.reason);
    }
}

#[every_engine]
async fn rows_without_a_queue_a_consumer_or_a_body_are_kept_and_counted_and_block_nothing(
    db: &TestDb,
) {
    let row = |queue_id, slot| Row {
        event_type: "known".to_owned(),
        key: vec![0xff, 0],
        payload: vec![0; 9],
        headers: None,
        target: None,
        queue_id,
        slot,
    };
    let other = Queue::of("nobody", Partitions::of(64));
    let strays = [
        // Beyond the count, and of a queue that no process registered.
        row(QUEUE.id(), 16_384 + 4),
        row(QUEUE.id(), 16_384 + 63),
        row(QUEUE.id(), i16::MAX),
        row(other.id(), 5),
        row(other.id(), 16_384),
        row(0, 0),
        row(i64::MIN, i16::MIN),
    ];
    for stray in &strays {
        insert(db, stray).await;
    }
    // For a consumer that does not exist, and one whose body is gone.
    let without_consumer = Row {
        target: Some("nobody".to_owned()),
        ..row(QUEUE.id(), 0)
    };
    insert(db, &without_consumer).await;
    let gone = insert(db, &row(QUEUE.id(), 0)).await;
    db.execute(&format!("DELETE FROM outbox_body WHERE id = {gone}"))
        .await;
    let good = insert(db, &row(QUEUE.id(), 0)).await;

    let kept = SeenMessages::default();
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .retry(impatient())
        .leased(kept.clone())
        .start()
        .await
        .unwrap();
    eventually("the good one", async || {
        kept.0.lock().unwrap().contains_key(&good)
    })
    .await;
    eventually("vacuum", async || {
        db.number("SELECT COUNT(*) FROM outbox_outgoing").await == 0
    })
    .await;
    let stats = running.stats().await.unwrap();
    let counted: u64 = stats.unregistered.iter().map(|stray| stray.count).sum();
    assert_eq!(counted, strays.len() as u64, "{stats:?}");
    running.stop().await;
    assert_eq!(kept.0.lock().unwrap().len(), 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_incoming").await, 7);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_body").await, 7);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
}
