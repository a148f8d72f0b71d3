//! A handler that keeps a nested transaction loses nothing silently.

use super::*;
use crate::engine::support::scripted_handler::{create_ledger, ledger};
use outbox_runtime::{Outbox, OutboxProfile, TransactionalMessageHandler};
use outbox_tests::every_engine;
use sea_orm::{ConnectionTrait, DatabaseTransaction, TransactionTrait};

/// Begins a nested transaction with some messages, and keeps it.
#[derive(Clone, Default)]
struct Keeping {
    kept: Arc<Mutex<Vec<DatabaseTransaction>>>,
    keeps: Arc<Mutex<Vec<String>>>,
    /// Whether a later message of the same batch ends what an earlier one kept.
    ends_midway: Option<Ending>,
    seen: Seen,
}

#[derive(Clone, Copy)]
enum Ending {
    RollBack,
    Commit,
}

impl Keeping {
    fn keeps_any(&self) -> bool {
        !self.kept.lock().unwrap().is_empty()
    }

    /// The latest, because they are nested in one another.
    fn pop(&self) -> Option<DatabaseTransaction> {
        self.kept.lock().unwrap().pop()
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Keeping {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let write = format!("INSERT INTO ledger (consumer, note) VALUES ('keeping', '{text}')");
        if let Err(error) = tx.execute_unprepared(&write).await {
            return HandlerResult::retry(error);
        }
        let keep = {
            let mut keeps = self.keeps.lock().unwrap();
            let place = keeps.iter().position(|kept| *kept == text);
            place.map(|place| keeps.remove(place)).is_some()
        };
        if keep {
            match tx.begin().await {
                Ok(nested) => self.kept.lock().unwrap().push(nested),
                Err(error) => return HandlerResult::retry(error),
            }
        }
        if let (Some(ending), "k:6") = (self.ends_midway, &*text)
            && let Some(nested) = self.pop()
        {
            // The database decides whether that is still possible.
            let _ = match ending {
                Ending::RollBack => nested.rollback().await,
                Ending::Commit => nested.commit().await,
            };
        }
        self.seen.add(message);
        HandlerResult::Success
    }
}

/// Runs ten messages; what is kept with two of them is ended by `end`, once the
/// outbox has tried to commit and the lease is over.
async fn assert_exact(db: &TestDb, batch: u32, end: impl AsyncFn(DatabaseTransaction)) {
    create_ledger(db).await;
    let keeping = Keeping::default();
    let keeps = ["k:4".to_owned(), "k:9".to_owned()];
    keeping.keeps.lock().unwrap().extend(keeps);
    let running = Outbox::builder(db.connect().await)
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .lease(SHORT)
        .batch(batch)
        .retry(soon(100))
        .transactional(keeping.clone())
        .start()
        .await
        .unwrap();
    commit_many(db, &QUEUE, "k", 0..10).await;
    while !keeping.keeps.lock().unwrap().is_empty() || keeping.keeps_any() {
        eventually("a kept transaction", async || keeping.keeps_any()).await;
        eventually("the end of its lease", async || {
            // Or it was given back, where the outbox noticed.
            let over = format!("lease_until IS NULL OR lease_until < {}", db.from_now(-100));
            let partition = partition_id("k");
            let over = format!(
                "SELECT COUNT(*) FROM outbox_cursor WHERE partition_id = {partition} AND ({over})"
            );
            db.number(&over).await > 0
        })
        .await;
        while let Some(nested) = keeping.pop() {
            end(nested).await;
        }
    }
    drained(db).await;
    let expected: Vec<String> = (0..10).map(|n| format!("k:{n}")).collect();
    assert_eq!(ledger(db, "keeping").await, expected);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    running.stop().await;
}

/// Runs ten messages as one batch, in which a later one ends what an earlier kept.
async fn assert_exact_midway(db: &TestDb, ending: Ending) {
    create_ledger(db).await;
    let keeping = Keeping {
        ends_midway: Some(ending),
        ..Keeping::default()
    };
    keeping.keeps.lock().unwrap().push("k:4".to_owned());
    commit_many(db, &QUEUE, "k", 0..10).await;
    let running = Outbox::builder(db.connect().await)
        .queue("orders", QUEUE.partitions())
        .retry(soon(100))
        .transactional(keeping.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    let expected: Vec<String> = (0..10).map(|n| format!("k:{n}")).collect();
    assert_eq!(ledger(db, "keeping").await, expected);
    running.stop().await;
}

#[every_engine]
async fn a_nested_transaction_rolled_back_midway_undoes_no_other_message(db: &TestDb) {
    assert_exact_midway(db, Ending::RollBack).await;
}

#[every_engine]
async fn a_nested_transaction_committed_midway_repeats_nothing(db: &TestDb) {
    assert_exact_midway(db, Ending::Commit).await;
}

/// Unlike a drop this waits for the statement that uses the connection.
async fn give_up(nested: DatabaseTransaction) {
    let _ = nested.rollback().await;
}

#[every_engine]
async fn a_nested_transaction_that_is_rolled_back_later_loses_nothing(db: &TestDb) {
    assert_exact(db, 10, give_up).await;
}

#[every_engine]
async fn a_nested_transaction_kept_by_a_batch_of_one_loses_nothing(db: &TestDb) {
    assert_exact(db, 1, give_up).await;
}

#[every_engine]
async fn a_nested_transaction_that_is_committed_later_repeats_nothing(db: &TestDb) {
    assert_exact(db, 10, async |nested| {
        // Whether it still can be is the database's to say.
        let _ = nested.commit().await;
    })
    .await;
}
