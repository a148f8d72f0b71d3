//! Between processes on PostgreSQL.

use super::*;
use outbox::{Outbox, OutboxProfile};
use outbox_tests::{TestDb, eventually, postgres};
use sea_orm::sqlx::postgres::PgListener;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, Statement, TransactionTrait};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A profile that finds nothing by itself.
fn deaf() -> OutboxProfile {
    let mut profile = OutboxProfile::default();
    profile.reconciler = profile.reconciler.idle_interval(Duration::from_secs(600));
    profile
}

/// Rows as another process would write them: no signal of this one is sent.
async fn commit_elsewhere(db: &sea_orm::DatabaseConnection, text: &str) {
    let sql = "WITH b AS (INSERT INTO outbox_body (queue_id, slot, nonce, event_type, key, \
                       payload, enqueued_at) \
                   VALUES ($2, 0, 9, 'order', '', $1, now()) RETURNING id) \
               INSERT INTO outbox_incoming (queue_id, id, slot) SELECT $2, id, 0 FROM b";
    let values = [text.as_bytes().to_vec().into(), QUEUE.id().into()];
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, values);
    db.execute_raw(statement).await.expect("insert");
}

#[postgres]
async fn a_notification_wakes_a_process_that_does_not_poll(db: &TestDb) {
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
}

#[postgres]
async fn a_process_that_only_produces_notifies_outside_its_transactions(db: &TestDb) {
    // A listener of the test's own, to hear what is sent.
    let mut listener = listener(db).await;
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
}

/// Hears what is sent.
async fn listener(db: &TestDb) -> PgListener {
    let pool = db.connection().get_postgres_connection_pool();
    let mut listener = PgListener::connect_with(pool).await.unwrap();
    listener.listen("outbox").await.unwrap();
    listener
}

/// Enqueues a message in each of 600 queues, of which other processes are told at once: the
/// transaction has the only connection, and until it ends nothing is told. Returns their ids.
async fn mark_many(producer: &sea_orm::DatabaseConnection) -> BTreeMap<i64, Queue> {
    let tx = producer.begin().await.unwrap();
    let mut marked = BTreeMap::new();
    for n in 0..600 {
        let queue = Queue::try_of(format!("many-{n}"), Partitions::of(1)).unwrap();
        let message = NewMessage::new("order", 1, "x");
        outbox::enqueue(&tx, &queue, message).await.unwrap();
        marked.insert(queue.id(), queue);
    }
    tx.commit().await.unwrap();
    marked
}

/// A producer's database with one connection.
async fn only_connection(db: &TestDb) -> sea_orm::DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

/// Waits until each of the queues was told of. Others in this test process are told of, too.
async fn all_are_told(listener: &mut PgListener, mut told: BTreeSet<i64>) {
    while !told.is_empty() {
        let heard = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await;
        let Ok(heard) = heard else {
            panic!("no listener was told of {} queues", told.len());
        };
        for id in heard.unwrap().payload().split(',') {
            told.remove(&id.parse().unwrap());
        }
    }
}

#[postgres]
async fn notifications_of_many_queues_at_once_are_sent_in_parts(db: &TestDb) {
    let mut listener = listener(db).await;
    let only = only_connection(db).await;
    let producer = Outbox::builder(only.clone()).notify().start().await;
    let marked = mark_many(&only).await;
    all_are_told(&mut listener, marked.into_keys().collect()).await;
    producer.unwrap().stop().await;
}

/// A function of the test's own stands before the server's, and refuses one queue for ever.
#[postgres]
async fn a_notification_that_fails_holds_up_no_other(db: &TestDb) {
    let mut listener = listener(db).await;
    let refused = Queue::try_of("many-0".to_owned(), Partitions::of(1)).unwrap();
    db.execute(&format!(
        "CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS $$ \
         BEGIN \
             IF $2 LIKE '%{}%' THEN RAISE 'refused'; END IF; \
             PERFORM pg_catalog.pg_notify($1, $2); \
         END $$",
        refused.id()
    ))
    .await;
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', \
         current_database()); END $$",
    )
    .await;
    let only = only_connection(db).await;
    let producer = Outbox::builder(only.clone()).notify().start().await;
    let marked = mark_many(&only).await;
    // The parts are in the order of ids, two of 300 each.
    let ids: Vec<i64> = marked.keys().copied().collect();
    let (good, bad) = match ids[..300].contains(&refused.id()) {
        true => (&ids[300..], &ids[..300]),
        false => (&ids[..300], &ids[300..]),
    };
    all_are_told(&mut listener, good.iter().copied().collect()).await;
    // A queue that was refused for its neighbour's sake is told of when it is marked again.
    let innocent = bad.iter().find(|id| **id != refused.id()).unwrap();
    let message = NewMessage::new("order", 1, "x");
    outbox::enqueue(&only, &marked[innocent], message)
        .await
        .unwrap();
    all_are_told(&mut listener, BTreeSet::from([*innocent])).await;
    producer.unwrap().stop().await;
}
