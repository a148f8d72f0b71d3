//! A handler is dropped in the middle of a statement; its connection is not lost.

use super::*;
use outbox_runtime::{Outbox, OutboxProfile, TransactionalMessageHandler};
use outbox_tests::{Engine, run};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseTransaction, Statement, TransactionTrait,
};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Writes to a table that others lock, in words that the server has not prepared yet.
#[derive(Clone, Default)]
struct Wordy(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl TransactionalMessageHandler for Wordy {
    async fn handle(&self, tx: &DatabaseTransaction, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let n = self.0.fetch_add(1, Ordering::AcqRel);
        let sql = format!("INSERT INTO gate (a, b, c) VALUES (?, ?, ?) /* {n} */");
        let values = [1.into(), 2.into(), 3.into()];
        let statement = Statement::from_sql_and_values(tx.get_database_backend(), sql, values);
        match tx.execute_raw(statement).await {
            Ok(_) => HandlerResult::Success,
            Err(error) => HandlerResult::retry(error),
        }
    }
}

/// While a change of the table waits for somebody who reads it, the server does not even
/// prepare a statement. Dropped then, the statement's connection would never answer again.
fn handlers_are_dropped_while_a_statement_is_prepared(timeout: Option<Duration>) {
    run(Engine::MySql, true, |db| {
        Box::pin(async move {
            db.execute("CREATE TABLE gate (a INT, b INT, c INT)").await;
            let mut options = ConnectOptions::new(db.url());
            // Fewer than the handlers that are dropped.
            options.max_connections(4).sqlx_logging(false);
            let pool = Database::connect(options).await.unwrap();
            let wordy = Wordy::default();
            let mut queue = Outbox::builder(pool.clone())
                .profile(OutboxProfile::low_latency())
                .queue("orders", QUEUE.partitions())
                .retry(soon(1_000))
                .lease(LeaseConfig {
                    duration: Duration::from_millis(600),
                    headroom: Duration::from_millis(200),
                });
            if let Some(timeout) = timeout {
                queue = queue.timeout(timeout);
            }
            let running = queue.transactional(wordy.clone()).start().await.unwrap();
            for round in 1..=5 {
                let reader = db.connection().begin().await.unwrap();
                reader
                    .execute_unprepared("SELECT COUNT(*) FROM gate")
                    .await
                    .unwrap();
                let change = format!("ALTER TABLE gate COMMENT = '{round}'");
                let other = db.connect().await;
                let changing = tokio::spawn(async move { other.execute_unprepared(&change).await });
                let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
                    WHERE db = DATABASE() AND info LIKE 'ALTER%' AND state LIKE 'Waiting%'";
                eventually("the change", async || db.number(waiting).await == 1).await;
                let before = wordy.0.load(Ordering::Acquire);
                commit(db.connection(), "k", round).await;
                eventually("the handler", async || {
                    wordy.0.load(Ordering::Acquire) > before
                })
                .await;
                // Past the end of the lease.
                tokio::time::sleep(Duration::from_millis(700)).await;
                reader.rollback().await.unwrap();
                changing.await.unwrap().unwrap();
                let rows = i64::try_from(round).unwrap();
                eventually("the row", async || {
                    db.number("SELECT COUNT(*) FROM gate").await == rows
                })
                .await;
            }
            running.stop().await;
            // Every connection came back.
            let closing = tokio::time::timeout(Duration::from_secs(20), pool.close());
            closing.await.expect("a connection is lost").unwrap();
        })
    });
}

#[test]
fn at_the_end_of_a_lease_a_connection_is_not_lost_with_its_statement() {
    handlers_are_dropped_while_a_statement_is_prepared(None);
}

#[test]
fn at_the_end_of_a_timeout_a_connection_is_not_lost_with_its_statement() {
    handlers_are_dropped_while_a_statement_is_prepared(Some(Duration::from_millis(100)));
}
