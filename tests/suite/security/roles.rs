//! Few rights are enough, on PostgreSQL: reading and writing rows for a worker,
//! two tables for a producer. `outbox_migrations` says which.

use super::*;
use outbox::{DeadLetterFilter, NewMessage, Outbox, Queue, enqueue, enqueue_batch};
use outbox_tests::{TestDb, eventually, postgres};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, TransactionTrait};

const QUEUE: Queue = Queue::of("few-rights", ONE);

/// Connections as a role that has these rights and no others. Roles belong to the
/// server, so each test has its own.
async fn connect_as(db: &TestDb, rights: &[&str]) -> (DatabaseConnection, String) {
    let role = format!("outbox_{}", uuid::Uuid::new_v4().simple());
    db.execute(&format!("CREATE ROLE {role} LOGIN")).await;
    for right in rights {
        db.execute(&format!("GRANT {right} TO {role}")).await;
    }
    let (_, address) = db.url().split_once('@').expect("a URL with a user");
    let url = format!("postgres://{role}@{address}");
    let conn = sea_orm::Database::connect(url).await.expect("the role");
    (conn, role)
}

async fn remove(db: &TestDb, conn: DatabaseConnection, role: &str) {
    conn.close().await.unwrap();
    db.execute(&format!("DROP OWNED BY {role}")).await;
    db.execute(&format!("DROP ROLE {role}")).await;
}

struct Exact;

#[async_trait::async_trait]
impl outbox::TransactionalMessageHandler for Exact {
    async fn handle(&self, _: &DatabaseTransaction, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::Success
    }
}

#[postgres]
async fn a_worker_needs_to_read_and_write_rows_and_nothing_else(db: &TestDb) {
    let rights = [
        "SELECT, INSERT, UPDATE, DELETE ON outbox_queue, outbox_partition, \
         outbox_consumer, outbox_incoming, outbox_outgoing, outbox_cursor, \
         outbox_attempt, outbox_dead_letter",
        // A message is written once.
        "SELECT, INSERT, DELETE ON outbox_body",
        "SELECT ON outbox_schema",
    ];
    let (conn, role) = connect_as(db, &rights).await;
    let refused = conn.execute_unprepared("TRUNCATE outbox_body").await;
    refused.expect_err("no other right");
    let reason = "no".to_owned();
    let running = Outbox::builder(conn.clone())
        .notify()
        .queue(QUEUE.name(), ONE)
        .retry(TWICE)
        .leased(Obedient { reason })
        .queue(QUEUE.name(), ONE)
        .consumer("exact")
        .transactional(Exact)
        .start()
        .await
        .unwrap();
    for event_type in ["fine", "fail", "reject"] {
        let message = NewMessage::new(event_type, 1, "p");
        enqueue(&conn, &QUEUE, message).await.unwrap();
    }
    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new();
    eventually("two dead letters", async || {
        letters.count(&all).await.unwrap() == 2
    })
    .await;
    let claimed = letters
        .replay(all.clone().limit(1), Duration::from_secs(60))
        .await
        .unwrap();
    let ids = outbox::DeadLetterScope::letters(claimed.letters.iter().map(|l| l.id));
    letters.resolve(&claimed.claim, ids).await.unwrap();
    assert_eq!(letters.requeue(all).await.unwrap().requeued.len(), 1);
    letters.cleanup(Duration::ZERO).await.unwrap();
    running.outbox().pause(QUEUE.name()).await.unwrap();
    running.outbox().resume(QUEUE.name()).await.unwrap();
    running.stats().await.unwrap();
    eventually("vacuum", async || {
        db.number("SELECT COUNT(*) FROM outbox_body").await == 0
    })
    .await;
    assert!(
        running
            .outbox()
            .remove_consumer(QUEUE.name(), "exact")
            .await
            .unwrap()
    );
    running.stop().await;
    remove(db, conn, &role).await;
}

#[postgres]
async fn a_producer_needs_to_insert_into_two_tables_and_to_read_the_ids(db: &TestDb) {
    let rights = [
        "INSERT, SELECT (id, slot) ON outbox_body",
        "INSERT, SELECT (id) ON outbox_incoming",
    ];
    let (conn, role) = connect_as(db, &rights).await;
    let tx = conn.begin().await.unwrap();
    enqueue(&tx, &QUEUE, NewMessage::new("fine", 1, "p"))
        .await
        .unwrap();
    let list = (0..3).map(|n| NewMessage::new("fine", n, "p"));
    let ids = enqueue_batch(&tx, &QUEUE, list).await.unwrap();
    assert_eq!(ids.len(), 3);
    tx.commit().await.unwrap();
    for refused in [
        "SELECT payload FROM outbox_body",
        "SELECT key FROM outbox_body",
        "DELETE FROM outbox_incoming",
        "SELECT 1 FROM outbox_dead_letter",
    ] {
        let error = conn.execute_unprepared(refused).await.expect_err(refused);
        assert!(error.to_string().contains("permission denied"), "{error}");
    }
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_incoming").await, 4);
    remove(db, conn, &role).await;
}
