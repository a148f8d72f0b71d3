//! Keys to which several producers commit at once.

use super::super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sea_orm::{ConnectionTrait, DatabaseConnection, TransactionTrait};

/// Keys that several producers share. The producer that holds a key's number commits with it, so
/// the numbers of a key are its commit order.
#[derive(Default)]
pub(crate) struct Keys(BTreeMap<String, tokio::sync::Mutex<usize>>);

impl Keys {
    pub(crate) fn new(count: usize) -> Self {
        let key = |n| (format!("key{n}"), tokio::sync::Mutex::default());
        Self((0..count).map(key).collect())
    }

    /// `producers` producers commit `each` messages, and roll back as many as fit
    /// in between; `dbs` are their connections.
    pub(crate) async fn produce(
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
                // If the producer itself loses a race, it tries again.
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
    pub(crate) fn committed(&mut self) -> BTreeMap<String, usize> {
        let numbers = self.0.iter_mut();
        numbers
            .map(|(key, n)| (key.clone(), *n.get_mut()))
            .collect()
    }

    pub(crate) fn total(&mut self) -> usize {
        self.committed().values().sum()
    }

    /// Everything committed is there, first seen in order.
    pub(crate) fn assert_in_order(&mut self, seen: &BTreeMap<String, Vec<usize>>) {
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
