//! On MySQL a deadlock ends the whole transaction, and what follows commits by itself. If a handler
//! ignores the deadlock, the engine must notice.

use super::*;
use crate::engine::support::scripted_handler::{create_ledger, ledger};
use outbox_runtime::{Outbox, TransactionalMessageHandler};
use outbox_tests::mysql;
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbErr, TransactionTrait};

const FIRST: &str = "UPDATE account SET cents = cents + 1 WHERE id = 1";
const SECOND: &str = "UPDATE account SET cents = cents + 1 WHERE id = 2";

/// Writes every message into the ledger; with one of them it runs into a deadlock,
/// once, and says that all is well.
#[derive(Clone)]
struct Careless {
    other: DatabaseConnection,
    deadlocks_with: &'static str,
    errors: Arc<Mutex<Vec<DbErr>>>,
    calls: Arc<Mutex<Vec<(String, u32)>>>,
}

impl Careless {
    /// Two transactions want what the other has. The other one has written more, so
    /// that the server gives this one up.
    async fn deadlock(&self, tx: &DatabaseTransaction) -> DbErr {
        let other = self.other.begin().await.unwrap();
        let much = "UPDATE account SET cents = cents + 1 WHERE id > 2";
        other.execute_unprepared(much).await.unwrap();
        other.execute_unprepared(SECOND).await.unwrap();
        tx.execute_unprepared(FIRST).await.unwrap();
        let (given_up, goes_on) = futures_util::join!(
            tx.execute_unprepared(SECOND),
            other.execute_unprepared(FIRST)
        );
        goes_on.expect("the other goes on");
        other.rollback().await.unwrap();
        given_up.expect_err("a deadlock")
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Careless {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        let note = String::from_utf8_lossy(message.payload()).into_owned();
        let write = format!("INSERT INTO ledger (consumer, note) VALUES ('careless', '{note}')");
        tx.execute_unprepared(&write).await.unwrap();
        let first = self.errors.lock().unwrap().is_empty();
        if first && note == self.deadlocks_with {
            let error = self.deadlock(tx).await;
            self.errors.lock().unwrap().push(error);
        }
        let mut calls = self.calls.lock().unwrap();
        calls.push((note, message.attempts()));
        HandlerResult::Success
    }
}

/// Delivers so many messages of which one runs into a deadlock: each takes effect
/// once. Returns the calls.
async fn assert_exact(db: &TestDb, messages: usize, with: &'static str) -> Vec<(String, u32)> {
    create_ledger(db).await;
    db.execute("CREATE TABLE account (id INT PRIMARY KEY, cents INT NOT NULL)")
        .await;
    let accounts: Vec<String> = (1..300).map(|id| format!("({id}, 0)")).collect();
    db.execute(&format!(
        "INSERT INTO account VALUES {}",
        accounts.join(",")
    ))
    .await;
    let careless = Careless {
        other: db.connect().await,
        deadlocks_with: with,
        errors: Arc::default(),
        calls: Arc::default(),
    };
    commit_many(db, &QUEUE, "k", 0..messages).await;
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(5))
        .transactional(careless.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    running.stop().await;
    let error = careless.errors.lock().unwrap()[0].to_string();
    assert!(error.contains("1213"), "{error}");
    let expected: Vec<String> = (0..messages).map(|n| format!("k:{n}")).collect();
    assert_eq!(ledger(db, "careless").await, expected);
    assert_eq!(
        db.number("SELECT CAST(SUM(cents) AS SIGNED) FROM account")
            .await,
        0
    );
    let buried = "SELECT COUNT(*) FROM outbox_dead_letter";
    assert_eq!(db.number(buried).await, 0);
    let calls = careless.calls.lock().unwrap();
    calls.clone()
}

#[mysql]
async fn a_deadlock_that_a_handler_ignores_acknowledges_nothing(db: &TestDb) {
    let calls = assert_exact(db, 1, "k:0").await;
    assert_eq!(calls, [("k:0".to_owned(), 0), ("k:0".to_owned(), 1)]);
}

#[mysql]
async fn a_deadlock_that_a_handler_ignores_repeats_no_other_message(db: &TestDb) {
    let calls = assert_exact(db, 6, "k:2").await;
    assert!(
        calls.iter().all(|(_, attempts)| *attempts == 0),
        "{calls:?}"
    );
}
