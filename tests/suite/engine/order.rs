//! Within a key, in the order in which transactions committed.

use super::scripted::{Act, Kind, Scripted, create_ledger, ledger};
use super::*;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sea_orm::{ConnectionTrait, DatabaseConnection, TransactionTrait};

/// Keys that several producers share. Who holds a key's number commits with it, so
/// the numbers of a key are its commit order.
#[derive(Default)]
pub(super) struct Keys(BTreeMap<String, tokio::sync::Mutex<usize>>);

impl Keys {
    pub(super) fn new(count: usize) -> Self {
        let key = |n| (format!("key{n}"), tokio::sync::Mutex::default());
        Self((0..count).map(key).collect())
    }

    /// `producers` producers commit `each` messages, and roll back as many as fit
    /// in between; `dbs` are their connections.
    pub(super) async fn produce(
        &self,
        dbs: &[DatabaseConnection],
        queue: &Queue,
        producers: usize,
        each: usize,
    ) {
        let work = (0..producers).map(|producer| async move {
            let mut random = StdRng::seed_from_u64(producer as u64);
            let db = &dbs[producer % dbs.len()];
            for _ in 0..each {
                let chosen = random.random_range(0..self.0.len());
                let (key, number) = self.0.iter().nth(chosen).expect("a key");
                if random.random_ratio(1, 5) {
                    let tx = db.begin().await.expect("begin");
                    let undone = NewMessage::new("step", key.clone(), format!("{key}:999999"));
                    let _ = enqueue(&tx, queue, undone).await;
                    let _ = tx.rollback().await;
                }
                let mut number = number.lock().await;
                // A race that the producer itself lost is its own to run again.
                while let Err(error) = once(db, queue, key, *number, &mut random).await {
                    assert!(
                        error.contains("serialize") || error.contains("eadlock"),
                        "{error}"
                    );
                }
                *number += 1;
            }
        });
        futures_util::future::join_all(work).await;
    }

    /// How many of each key were committed.
    pub(super) fn committed(&mut self) -> BTreeMap<String, usize> {
        let numbers = self.0.iter_mut();
        numbers
            .map(|(key, n)| (key.clone(), *n.get_mut()))
            .collect()
    }

    pub(super) fn total(&mut self) -> usize {
        self.committed().values().sum()
    }

    /// Everything committed is there, first seen in order.
    pub(super) fn assert_in_order(&mut self, seen: &BTreeMap<String, Vec<usize>>) {
        for (key, count) in self.committed() {
            let mut first: Vec<usize> = Vec::new();
            for n in seen.get(&key).into_iter().flatten() {
                if !first.contains(n) {
                    first.push(*n);
                }
            }
            assert_eq!(first, (0..count).collect::<Vec<_>>(), "{key}");
        }
    }
}

async fn once(
    db: &DatabaseConnection,
    queue: &Queue,
    key: &str,
    n: usize,
    random: &mut StdRng,
) -> Result<(), String> {
    if random.random_ratio(1, 4) {
        let sent = enqueue(db, queue, message(key, n)).await;
        return sent.map(drop).map_err(|error| format!("{error:?}"));
    }
    let tx = db.begin().await.map_err(|error| error.to_string())?;
    let sent = enqueue(&tx, queue, message(key, n)).await;
    sent.map_err(|error| format!("{error:?}"))?;
    if random.random_ratio(1, 3) && tx.get_database_backend() != sea_orm::DbBackend::Sqlite {
        // Some commit late, so that ids and commits are in different orders.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..4))).await;
    }
    tx.commit().await.map_err(|error| error.to_string())
}

#[every_engine]
async fn every_key_keeps_its_order_with_eight_producers(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .batch(7)
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let mut keys = Keys::new(12);
    keys.produce(&[db.connect().await], &QUEUE, 8, 50).await;
    assert_eq!(keys.total(), 400);
    seen.reaches(400).await;
    drained(db).await;
    keys.assert_in_order(&seen.by_key());
    assert_eq!(seen.count(), 400, "nothing failed, so nothing comes twice");
    running.stop().await;
}

#[every_engine]
async fn a_backlog_of_many_batches_comes_once_and_in_order(db: &TestDb) {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..500).await;
    let seen = Seen::default();
    let book = Scripted::new(Kind::TransactionalBatch, |_, _| Act::Succeed);
    let builder = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .batch(10)
        .leased(seen.clone())
        .queue("orders", QUEUE.partitions())
        .batch(10);
    let running = book.serve(builder).start().await.unwrap();
    drained(db).await;
    assert_eq!(seen.by_key()["k"], (0..500).collect::<Vec<_>>());
    let calls = book.calls().into_iter().map(|call| call.text);
    assert_eq!(calls.collect::<Vec<_>>(), seen.all());
    assert_eq!(ledger(db, "TransactionalBatch").await.len(), 500);
    running.stop().await;
}

#[every_engine]
async fn three_outboxes_keep_the_order_of_every_key(db: &TestDb) {
    let seen = Seen::default();
    let mut running = Vec::new();
    for _ in 0..3 {
        let outbox = Outbox::builder(db.connect().await)
            .queue("orders", QUEUE.partitions())
            .batch(7)
            .leased(seen.clone())
            .start();
        running.push(outbox.await.unwrap());
    }
    let mut keys = Keys::new(12);
    keys.produce(&[db.connect().await], &QUEUE, 8, 50).await;
    seen.reaches(400).await;
    drained(db).await;
    keys.assert_in_order(&seen.by_key());
    assert_eq!(seen.count(), 400, "nothing failed, so nothing comes twice");
    for outbox in running {
        assert!(outbox.stop().await.clean);
    }
}
