//! Between processes on PostgreSQL.

use super::*;
use outbox::{Outbox, OutboxProfile};
use outbox_tests::{Engine, eventually, run};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, Statement, TransactionTrait};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// A profile that finds nothing by itself.
fn deaf() -> OutboxProfile {
    let mut profile = OutboxProfile::default();
    profile.reconciler = profile.reconciler.idle_interval(Duration::from_secs(600));
    profile
}

/// Rows as another process would write them: no signal of this one is sent.
async fn commit_elsewhere(db: &sea_orm::DatabaseConnection, text: &str) {
    let sql = "WITH b AS (INSERT INTO outbox_body (event_type, key, payload, enqueued_at) \
                   VALUES ('order', '', $1, now()) RETURNING id) \
               INSERT INTO outbox_incoming (queue_id, id, partition_id) SELECT $2, id, $2 FROM b";
    let values = [text.as_bytes().to_vec().into(), QUEUE.id().into()];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    db.execute_raw(statement).await.expect("insert");
}

#[test]
fn a_notification_wakes_a_process_that_would_not_look() {
    run(Engine::Postgres, true, |db| {
        Box::pin(async move {
            let seen = Seen::default();
            let running = Outbox::builder(db.connect().await)
                .profile(deaf())
                .notify()
                .queue("operations", QUEUE.partitions())
                .leased(seen.clone())
                .start()
                .await
                .unwrap();
            let listening = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() \
                             AND query LIKE 'LISTEN%'";
            eventually("the listener", async || db.number(listening).await == 1).await;
            for n in 0..20 {
                commit_elsewhere(db.connection(), &n.to_string()).await;
                db.execute(&format!("SELECT pg_notify('outbox', '{}')", QUEUE.id()))
                    .await;
                eventually("delivery", async || seen.all().len() == n + 1).await;
            }
            // The listener is killed and comes back by itself; what was said meanwhile is found.
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                        WHERE datname = current_database() AND query LIKE 'LISTEN%'",
            )
            .await;
            commit_elsewhere(db.connection(), "20").await;
            eventually("delivery", async || seen.all().len() == 21).await;
            running.stop().await;
        })
    });
}

#[test]
fn a_process_that_only_produces_notifies_outside_its_transactions() {
    run(Engine::Postgres, true, |db| {
        Box::pin(async move {
            // A listener of the test's own, to hear what is sent.
            let pool = db.connection().get_postgres_connection_pool();
            let mut listener = sea_orm::sqlx::postgres::PgListener::connect_with(pool)
                .await
                .unwrap();
            listener.listen("outbox").await.unwrap();
            // Other tests of this process enqueue too: a queue of its own.
            let queue = Queue::of("produced", Partitions::of(1));
            let producer = Outbox::builder(db.connection().clone())
                .notify()
                .start()
                .await
                .unwrap();
            let begun = Instant::now();
            for _ in 0..200 {
                let message = NewMessage::new("order", 1, "x");
                outbox::enqueue(db.connection(), &queue, message)
                    .await
                    .unwrap();
            }
            let enqueued_in = begun.elapsed();
            let mut heard = 0;
            while let Ok(Ok(notification)) =
                tokio::time::timeout(Duration::from_millis(500), listener.recv()).await
            {
                if notification.payload().contains(&queue.id().to_string()) {
                    heard += 1;
                }
            }
            let most = enqueued_in.as_millis() / 3 + 2;
            assert!(
                heard >= 1 && heard <= most,
                "{heard} notifications for 200 messages"
            );
            producer.stop().await;
        })
    });
}

#[test]
fn notifications_of_many_queues_at_once_are_sent_in_parts() {
    run(Engine::Postgres, true, |db| {
        Box::pin(async move {
            let pool = db.connection().get_postgres_connection_pool();
            let mut listener = sea_orm::sqlx::postgres::PgListener::connect_with(pool)
                .await
                .unwrap();
            listener.listen("outbox").await.unwrap();
            // The transaction has the only connection: until it ends nothing is told.
            let mut options = ConnectOptions::new(db.url());
            options.max_connections(1).sqlx_logging(false);
            let only = Database::connect(options).await.unwrap();
            let producer = Outbox::builder(only.clone()).notify().start().await;
            let producer = producer.unwrap();
            let tx = only.begin().await.unwrap();
            let mut told = BTreeSet::new();
            for n in 0..600 {
                let queue = Queue::try_of(format!("many-{n}"), Partitions::of(1)).unwrap();
                let message = NewMessage::new("order", 1, "x");
                outbox::enqueue(&tx, &queue, message).await.unwrap();
                told.insert(queue.id());
            }
            tx.commit().await.unwrap();
            // Others in this test process are told of, too.
            while !told.is_empty() {
                let heard = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await;
                let Ok(heard) = heard else {
                    panic!("nobody was told of {} queues", told.len());
                };
                let heard = heard.unwrap();
                for id in heard.payload().split(',') {
                    told.remove(&id.parse().unwrap());
                }
            }
            producer.stop().await;
        })
    });
}
