//! Slots that no producer of ours writes.

use super::*;
use outbox::prelude::*;
use outbox::{Ctx, DeadLetterFilter, LeasedMessageHandler, OutboxMessage, REQUEUED_FROM};
use outbox_tests::{eventually, every_engine};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Rejects each message until it is requeued. Remembers in which partition it saw which payload.
#[derive(Clone, Default)]
struct Watchful {
    first: Arc<Mutex<BTreeMap<String, u32>>>,
    requeued: Arc<Mutex<BTreeMap<String, u32>>>,
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Watchful {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let requeued = message.headers().get(REQUEUED_FROM).is_some();
        let seen = if requeued {
            &self.requeued
        } else {
            &self.first
        };
        seen.lock().unwrap().insert(text, message.partition());
        if requeued {
            HandlerResult::Success
        } else {
            HandlerResult::reject("not yet")
        }
    }
}

#[every_engine]
async fn a_message_with_a_negative_slot_is_requeued_to_the_partition_that_it_came_from(
    db: &TestDb,
) {
    let slots = [-1, -3, -5, -9, i16::MIN, i16::MIN + 1];
    let mut expected = BTreeMap::new();
    for slot in slots {
        let row = Row {
            event_type: "known".to_owned(),
            key: b"k".to_vec(),
            payload: slot.to_string().into_bytes(),
            headers: None,
            target: None,
            queue_id: QUEUE.id(),
            slot,
        };
        insert(db, &row).await;
        let partition = u32::try_from(slot & 3).expect("two bits");
        expected.insert(slot.to_string(), partition);
    }
    let watchful = Watchful::default();
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .leased(watchful.clone())
        .start()
        .await
        .unwrap();
    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new();
    eventually("the letters", async || {
        letters.count(&all).await.unwrap() == slots.len() as u64
    })
    .await;
    for letter in letters.list(&all).await.unwrap() {
        let text = String::from_utf8(letter.payload).unwrap();
        assert_eq!(letter.partition, expected[&text], "{text}");
        assert_eq!(letter.slot.get().cast_signed().to_string(), text);
    }
    letters.requeue(all).await.unwrap();
    eventually("the requeued ones", async || {
        watchful.requeued.lock().unwrap().len() == slots.len()
    })
    .await;
    running.stop().await;
    assert_eq!(*watchful.first.lock().unwrap(), expected);
    assert_eq!(*watchful.requeued.lock().unwrap(), expected);
}
