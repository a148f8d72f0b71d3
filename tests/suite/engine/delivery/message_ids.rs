//! What identifies a message: its id while the database remembers it, its unique id for ever.

use super::*;
use outbox::{DeadLetterFilter, DeadLetters, UniqueId};
use outbox_runtime::{OutboxBuilder, QueueBuilder, TransactionalMessageHandler};
use outbox_tests::{Engine, every_engine};
use sea_orm::DatabaseTransaction;
use std::collections::BTreeSet;

/// A call: which message, and in which attempt.
#[derive(Clone, PartialEq, Debug)]
struct Named {
    id: i64,
    key: Vec<u8>,
    unique_id: UniqueId,
    attempts: u32,
    requeued: bool,
}

/// Fails once, then rejects, and takes what was requeued.
#[derive(Clone, Default)]
struct Naming(Arc<Mutex<Vec<Named>>>);

impl Naming {
    fn calls(&self) -> Vec<Named> {
        self.0.lock().unwrap().clone()
    }

    fn name(&self, message: &OutboxMessage) -> HandlerResult {
        if message.event_type() == WARM_UP {
            return HandlerResult::Success;
        }
        let requeued = message.headers().get(outbox::REQUEUED_FROM).is_some();
        self.0.lock().unwrap().push(Named {
            id: message.id().get(),
            key: message.key().to_vec(),
            unique_id: message.unique_id(),
            attempts: message.attempts(),
            requeued,
        });
        match message.attempts() {
            _ if requeued => HandlerResult::Success,
            0 => HandlerResult::retry("once more"),
            _ => HandlerResult::reject("never"),
        }
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Naming {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.name(message)
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Naming {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        self.name(message)
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

/// The type of messages that every handler takes and forgets.
const WARM_UP: &str = "warm-up";

/// Sends a message to every partition. After that an outbox knows where each cursor is, and on
/// PostgreSQL claims many of them in one statement, which reads the bodies in its own way.
async fn warm_up(db: &TestDb) {
    let to_all = (0..QUEUE.partitions().count())
        .map(|number| NewMessage::new(WARM_UP, "w", "w").to_partition(number));
    outbox::enqueue_batch(db.connection(), &QUEUE, to_all)
        .await
        .unwrap();
    drained(db).await;
}

/// Delivers messages that fail, are rejected and are requeued. Each keeps its unique id.
async fn unique_ids_stay(db: &TestDb, serve: fn(QueueBuilder, Naming) -> OutboxBuilder) {
    let naming = Naming::default();
    let queue = orders(db.connection()).retry(soon(5));
    let running = serve(queue, naming.clone()).start().await.unwrap();
    warm_up(db).await;
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    let messages = keys.iter().map(|key| message(key, 0));
    outbox::enqueue_batch(db.connection(), &QUEUE, messages)
        .await
        .unwrap();
    let letters = DeadLetters::new(db.connection().clone());
    let all = DeadLetterFilter::new();
    eventually("the letters", async || {
        letters.count(&all).await.unwrap() == 8
    })
    .await;
    drained(db).await;
    let found = letters.list(&all).await.unwrap();
    letters.requeue(all).await.unwrap();
    eventually("the requeued ones", async || {
        naming.calls().iter().filter(|call| call.requeued).count() >= 8
    })
    .await;
    running.stop().await;

    let different: BTreeSet<UniqueId> = found.iter().map(|letter| letter.unique_id).collect();
    assert_eq!(different.len(), 8);
    for letter in found {
        let mut calls = naming.calls();
        calls.retain(|call| call.key == letter.key);
        let unique: BTreeSet<UniqueId> = calls.iter().map(|call| call.unique_id).collect();
        assert_eq!(unique, BTreeSet::from([letter.unique_id]), "{calls:?}");
        let attempts: BTreeSet<u32> = calls.iter().map(|call| call.attempts).collect();
        assert!(attempts.is_superset(&BTreeSet::from([0, 1])), "{calls:?}");
        for call in &calls {
            let same_row = call.id == letter.message_id.get();
            assert_eq!(same_row, !call.requeued, "{calls:?}");
        }
        assert!(calls.last().is_some_and(|call| call.requeued), "{calls:?}");
        let slot = outbox::Slot::of_key(&letter.key);
        assert_eq!(
            (letter.slot, letter.partition),
            (slot, slot.partition(QUEUE.partitions()))
        );
    }
}

#[every_engine]
async fn a_unique_id_stays_over_attempts_and_in_a_dead_letter_and_when_it_is_requeued(db: &TestDb) {
    unique_ids_stay(db, |queue, naming| queue.leased(naming)).await;
}

#[every_engine]
async fn a_unique_id_stays_with_many_keys_at_a_time(db: &TestDb) {
    unique_ids_stay(db, |queue, naming| queue.concurrency(4).leased(naming)).await;
}

#[every_engine]
async fn a_unique_id_stays_in_transactions_that_are_rolled_back(db: &TestDb) {
    unique_ids_stay(db, |queue, naming| queue.transactional(naming)).await;
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
    let lost = naming.calls().remove(0);
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
