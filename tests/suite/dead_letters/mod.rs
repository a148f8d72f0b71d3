//! Dead letters: found, replayed, resolved, rejected, discarded, requeued, removed.

mod alerts;
mod claims;
mod filters;
mod paging;
mod refused_requeues;
mod requeue;
mod slots;
mod states;
mod typed;

use outbox::{DeadLetterClaim, DeadLetterFilter, DeadLetterId, DeadLetterMessage, DeadLetters};
use outbox_tests::{Engine, TestDb};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A letter to put into the table.
#[derive(Clone)]
struct LetterRow {
    queue: &'static str,
    consumer: &'static str,
    event_type: &'static str,
    key: &'static str,
    payload: String,
    reason: &'static str,
    status: &'static str,
    failed_ago: Duration,
}

impl Default for LetterRow {
    fn default() -> Self {
        Self {
            queue: "orders",
            consumer: "default",
            event_type: "step",
            key: "k",
            payload: "p".into(),
            reason: "the warehouse is closed",
            status: "pending",
            failed_ago: Duration::ZERO,
        }
    }
}

/// Puts a letter into the table.
async fn bury(db: &TestDb, given: &LetterRow) -> DeadLetterId {
    let bytes = |text: &str| {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        match db.engine() {
            Engine::Postgres => format!("'\\x{hex}'::bytea"),
            Engine::MySql | Engine::Sqlite => format!("x'{hex}'"),
        }
    };
    let ago = -i32::try_from(given.failed_ago.as_millis()).unwrap();
    let reason = given.reason.replace('\'', "''");
    let reason = match db.engine() {
        Engine::MySql => reason.replace('\\', "\\\\"),
        Engine::Postgres | Engine::Sqlite => reason,
    };
    let done = match given.status {
        "pending" => "NULL".to_owned(),
        _ => db.from_now(ago),
    };
    db.execute(&format!(
        "INSERT INTO outbox_dead_letter (queue, {}, consumer, seq, message_id, event_type, {}, payload, \
            enqueued_at, failed_at, attempts, reason, status, completed_at, slot, nonce) \
         VALUES ('{}', 1, '{}', 7, 70, '{}', {}, {}, {at}, {at}, 3, '{reason}', '{}', {done}, 5, 9)",
        db.quoted("partition"),
        db.quoted("key"),
        given.queue,
        given.consumer,
        given.event_type,
        bytes(given.key),
        bytes(&given.payload),
        given.status,
        at = db.from_now(ago),
    ))
    .await;
    db.number("SELECT MAX(id) FROM outbox_dead_letter")
        .await
        .into()
}

/// Puts so many equal letters into the table, quickly.
async fn bury_many(db: &TestDb, given: &LetterRow, count: i64) {
    bury(db, given).await;
    let (key, partition) = (db.quoted("key"), db.quoted("partition"));
    let columns = format!(
        "queue, {partition}, consumer, seq, message_id, event_type, {key}, payload, \
         enqueued_at, failed_at, attempts, reason, status, completed_at, slot, nonce"
    );
    loop {
        let there = db.number("SELECT COUNT(*) FROM outbox_dead_letter").await;
        if there >= count {
            return;
        }
        db.execute(&format!(
            "INSERT INTO outbox_dead_letter ({columns}) SELECT {columns} FROM outbox_dead_letter \
             ORDER BY id LIMIT {}",
            there.min(count - there)
        ))
        .await;
    }
}

fn letters(db: &TestDb) -> DeadLetters {
    DeadLetters::new(db.connection().clone())
}

fn all() -> DeadLetterFilter {
    DeadLetterFilter::new()
}

async fn get(db: &TestDb, id: DeadLetterId) -> DeadLetterMessage {
    let found = letters(db).get(id).await.unwrap();
    found.unwrap_or_else(|| panic!("no letter {id}"))
}

/// Claims a letter as another operator does.
async fn claim(db: &TestDb, id: DeadLetterId) -> DeadLetterClaim {
    let claimed = letters(db).replay(id, HOUR).await.unwrap();
    assert_eq!(ids(&claimed.letters), [id]);
    claimed.claim
}

/// Lets every claim end.
async fn expire(db: &TestDb) {
    db.execute(&format!(
        "UPDATE outbox_dead_letter SET deadline = {}",
        db.from_now(-1)
    ))
    .await;
}

fn ids(letters: &[DeadLetterMessage]) -> Vec<DeadLetterId> {
    letters.iter().map(|letter| letter.id).collect()
}
