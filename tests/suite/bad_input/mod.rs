//! What other programs put into the tables: random bytes, rows without a queue, texts that
//! databases dislike. Such a row blocks no other message, and none of it is lost.

mod keys;
mod reasons;
mod rows;
mod slots;

use outbox::{Partitions, Queue};
use outbox_tests::{Engine, TestDb};
use sea_orm::{ConnectionTrait, Statement, Value};

const QUEUE: Queue = Queue::of("bad-input", Partitions::of(4));

/// A row as any program might write it.
#[derive(Clone, Debug)]
struct Row {
    event_type: String,
    key: Vec<u8>,
    payload: Vec<u8>,
    headers: Option<String>,
    target: Option<String>,
    queue_id: i64,
    slot: i16,
}

/// Writes a row past all checks; returns its id.
async fn insert(db: &TestDb, row: &Row) -> i64 {
    let conn = db.connection();
    let body = format!(
        "INSERT INTO outbox_body (queue_id, slot, event_type, {}, payload, headers, target, \
            nonce, enqueued_at) \
         VALUES (?, ?, ?, ?, ?, ?, ?, 9, {})",
        db.quoted("key"),
        db.from_now(0)
    );
    let values: [Value; 7] = [
        row.queue_id.into(),
        row.slot.into(),
        row.event_type.clone().into(),
        row.key.clone().into(),
        row.payload.clone().into(),
        row.headers.clone().unwrap_or_default().into(),
        row.target.clone().unwrap_or_default().into(),
    ];
    conn.execute_raw(statement(db, &body, values))
        .await
        .expect("a body");
    let id = db.number("SELECT MAX(id) FROM outbox_body").await;
    let incoming = "INSERT INTO outbox_incoming (queue_id, id, slot) VALUES (?, ?, ?)";
    let values: [Value; 3] = [row.queue_id.into(), id.into(), row.slot.into()];
    conn.execute_raw(statement(db, incoming, values))
        .await
        .expect("an incoming row");
    id
}

/// `?` stands for values on every engine.
fn statement<const N: usize>(db: &TestDb, sql: &str, values: [Value; N]) -> Statement {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (i, part) in parts.enumerate() {
        match db.engine() {
            Engine::Postgres => text.push_str(&format!("${}", i + 1)),
            Engine::MySql | Engine::Sqlite => text.push('?'),
        }
        text.push_str(part);
    }
    Statement::from_sql_and_values(db.connection().get_database_backend(), text, values)
}
