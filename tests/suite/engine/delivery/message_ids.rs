//! What identifies a message: its id while the database remembers it, its unique id for ever.

use super::*;
use outbox::{DeadLetterFilter, DeadLetters, UniqueId};
use outbox_tests::{Engine, every_engine};
use std::collections::BTreeSet;

/// A call: which message, and in which attempt.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Named {
    id: i64,
    unique_id: UniqueId,
    attempts: u32,
}

/// Fails once, then rejects, and takes what was requeued.
#[derive(Clone, Default)]
struct Naming(Arc<Mutex<Vec<Named>>>);

impl Naming {
    fn calls(&self) -> Vec<Named> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Naming {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let call = Named {
            id: message.id().get(),
            unique_id: message.unique_id(),
            attempts: message.attempts(),
        };
        self.0.lock().unwrap().push(call);
        let requeued = message.headers().get(outbox::REQUEUED_FROM).is_some();
        match message.attempts() {
            _ if requeued => HandlerResult::Success,
            0 => HandlerResult::retry("once more"),
            _ => HandlerResult::reject("never"),
        }
    }
}

/// Lets the next message have this id, as after a failover that lost commits, or a restore.
async fn count_again_from(db: &TestDb, id: i64) {
    db.execute(&match db.engine() {
        Engine::Postgres => format!("ALTER TABLE outbox_body ALTER COLUMN id RESTART WITH {id}"),
        Engine::MySql => format!("ALTER TABLE outbox_body AUTO_INCREMENT = {id}"),
        Engine::Sqlite => {
            let last = id - 1;
            format!("UPDATE sqlite_sequence SET seq = {last} WHERE name = 'outbox_body'")
        }
    })
    .await;
}

/// The random parts of the bodies.
async fn nonces(db: &TestDb) -> BTreeSet<i64> {
    let found = db.column("SELECT nonce FROM outbox_body").await;
    found.into_iter().collect()
}

#[every_engine]
async fn a_unique_id_stays_over_attempts_in_the_dead_letter_and_after_a_requeue(db: &TestDb) {
    let naming = Naming::default();
    let running = orders(db.connection())
        .retry(soon(5))
        .leased(naming.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    let letters = DeadLetters::new(db.connection().clone());
    let all = DeadLetterFilter::new();
    eventually("a letter", async || letters.count(&all).await.unwrap() == 1).await;
    let letter = letters.list(&all).await.unwrap().remove(0);
    letters.requeue(letter.id).await.unwrap();
    eventually("the requeued one", async || naming.calls().len() == 3).await;
    running.stop().await;

    let calls = naming.calls();
    let unique: BTreeSet<UniqueId> = calls.iter().map(|call| call.unique_id).collect();
    assert_eq!(unique, BTreeSet::from([letter.unique_id]), "{calls:?}");
    assert_eq!(calls[0].id, calls[1].id);
    assert_ne!(calls[1].id, calls[2].id, "another row");
    let slot = outbox::Slot::of_key(b"k");
    assert_eq!(
        (letter.slot, letter.partition),
        (slot, slot.partition(QUEUE.partitions()))
    );
}

#[every_engine]
async fn no_two_messages_share_a_unique_id(db: &TestDb) {
    commit_many(db, &QUEUE, "k", 0..500).await;
    for n in 0..20 {
        commit(db.connection(), "k", n).await;
    }
    assert_eq!(nonces(db).await.len(), 520);
}

#[every_engine]
async fn a_message_that_is_given_the_id_of_a_lost_one_has_another_unique_id(db: &TestDb) {
    let first = enqueue(db.connection(), &QUEUE, message("k", 0))
        .await
        .unwrap();
    let naming = Naming::default();
    let start = async || {
        orders(db.connection())
            .leased(naming.clone())
            .start()
            .await
            .unwrap()
    };
    let running = start().await;
    eventually("a call", async || !naming.calls().is_empty()).await;
    running.stop().await;
    let lost = naming.calls()[0];
    for table in ["outbox_attempt", "outbox_outgoing", "outbox_body"] {
        db.execute(&format!("DELETE FROM {table}")).await;
    }
    db.execute("UPDATE outbox_partition SET sequence = 0").await;
    db.execute("UPDATE outbox_cursor SET processed_seq = 0, claimed_seq = 0")
        .await;
    count_again_from(db, first.get()).await;
    let second = enqueue(db.connection(), &QUEUE, message("k", 1))
        .await
        .unwrap();
    assert_eq!(second, first, "the id comes again");
    let running = start().await;
    eventually("another call", async || {
        naming
            .calls()
            .iter()
            .any(|call| call.unique_id != lost.unique_id)
    })
    .await;
    running.stop().await;
    assert!(naming.calls().iter().all(|call| call.id == first.get()));
}
