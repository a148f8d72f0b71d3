//! A letter knows its message's slot, and a requeued message has that slot again.

use super::*;
use outbox::prelude::*;
use outbox::{LeasedMessageHandler, NewMessage, Queue, Slot, enqueue};
use outbox_tests::{eventually, every_engine};

const QUEUE: Queue = Queue::of("orders", Partitions::of(4));

/// Rejects everything.
struct Never;

#[outbox::async_trait]
impl LeasedMessageHandler for Never {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::reject("never")
    }
}

/// Delivers a message, stops when it is a letter, and requeues it. Says which letter that was, and
/// the id of the requeued message, which nobody has given a sequence number.
async fn bury_and_requeue(db: &TestDb, message: NewMessage) -> (DeadLetterMessage, i64) {
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .leased(Never)
        .start()
        .await
        .unwrap();
    enqueue(db.connection(), &QUEUE, message).await.unwrap();
    eventually("a letter", async || {
        letters(db).count(&all()).await.unwrap() == 1
    })
    .await;
    running.stop().await;
    let letter = letters(db).list(&all()).await.unwrap().remove(0);
    let report = letters(db).requeue(letter.id).await.unwrap();
    (letter, report.requeued[0].message.get())
}

/// Whether the message waits with this slot, which is the same in both of its rows.
async fn waits_with(db: &TestDb, id: i64, slot: u16) -> bool {
    let rows = "outbox_incoming i JOIN outbox_body b ON b.id = i.id AND b.slot = i.slot";
    let waits = format!("SELECT COUNT(*) FROM {rows} WHERE i.id = {id} AND i.slot = {slot}");
    db.number(&waits).await == 1
}

#[every_engine]
async fn a_requeued_message_has_the_slot_of_its_key(db: &TestDb) {
    let slot = Slot::of_key(b"customer-7");
    let message = NewMessage::new("step", "customer-7", "p");
    let (letter, id) = bury_and_requeue(db, message).await;
    assert_eq!(letter.slot, slot);
    assert_eq!(letter.slot.chosen_partition(), None);
    assert_eq!(letter.partition, slot.partition(QUEUE.partitions()));
    assert!(waits_with(db, id, slot.get()).await);
}

#[every_engine]
async fn the_slot_of_a_partition_chosen_by_hand_is_16384_and_the_partition(db: &TestDb) {
    // Not the partition of its key.
    let partition = (QUEUE.partition_of_key(b"customer-7") + 1) % 4;
    let message = NewMessage::new("step", "customer-7", "p").to_partition(partition);
    let (letter, id) = bury_and_requeue(db, message).await;
    assert_eq!(u32::from(letter.slot.get()), 16_384 + partition);
    assert_eq!(letter.slot.chosen_partition(), Some(partition));
    assert_eq!(letter.partition, partition);
    assert!(waits_with(db, id, letter.slot.get()).await);
}
