//! Everything that happened, from the database and from the journals.

use crate::journal::{self, Delivery, Entry};
use crate::scenario;
use outbox_tests::TestDb;
use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement};
use std::path::Path;

/// An event whose transaction committed.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) mark: i64,
    pub(crate) queue: String,
    pub(crate) key: String,
    /// Its number among the events of its key, in the order of commits.
    pub(crate) n: i64,
    pub(crate) message_id: i64,
}

/// An effect of a transactional handler.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) consumer: String,
    pub(crate) mark: i64,
    pub(crate) message_id: i64,
}

/// A dead letter.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) consumer: String,
    /// None if its payload is not one of ours.
    pub(crate) mark: Option<i64>,
    pub(crate) message_id: i64,
    pub(crate) reason: String,
}

#[derive(Clone, Default)]
pub(crate) struct History {
    pub(crate) committed: Vec<Event>,
    /// Marks that a producer was told are committed.
    pub(crate) confirmed: Vec<i64>,
    /// How many transactions and savepoints were rolled back.
    pub(crate) rolled_back: usize,
    /// How often a producer died between enqueue and commit.
    pub(crate) died: usize,
    pub(crate) begun: Vec<Delivery>,
    pub(crate) done: Vec<Delivery>,
    /// In the order in which they were written.
    pub(crate) effects: Vec<Effect>,
    pub(crate) letters: Vec<Letter>,
    /// Forbidden changes of cursors.
    pub(crate) lease: Vec<String>,
    /// What should be gone at the end, and is not.
    pub(crate) left: Vec<String>,
}

/// Reads it once all processes have ended.
pub(crate) async fn read(
    db: &TestDb,
    directory: &Path,
    left: Vec<String>,
) -> Result<History, DbErr> {
    let mut history = History {
        left,
        lease: db.texts("SELECT rule FROM chaos_lease").await,
        ..History::default()
    };
    for entry in journal::read_all(directory).expect("the journals") {
        match entry {
            Entry::Begun(delivery) => history.begun.push(delivery),
            Entry::Done(delivery) => history.done.push(delivery),
            Entry::Committed(marks) => history.confirmed.extend(marks),
            Entry::RolledBack(_) => history.rolled_back += 1,
            Entry::Dying => history.died += 1,
        }
    }
    for row in query(db, "SELECT mark, queue, k, n, message_id FROM chaos_event").await? {
        history.committed.push(Event {
            mark: row.try_get_by_index(0)?,
            queue: row.try_get_by_index(1)?,
            key: row.try_get_by_index(2)?,
            n: row.try_get_by_index(3)?,
            message_id: row.try_get_by_index(4)?,
        });
    }
    let effects = "SELECT consumer, mark, message_id FROM chaos_ledger ORDER BY id";
    for row in query(db, effects).await? {
        history.effects.push(Effect {
            consumer: row.try_get_by_index(0)?,
            mark: row.try_get_by_index(1)?,
            message_id: row.try_get_by_index(2)?,
        });
    }
    let letters = "SELECT consumer, message_id, payload, reason FROM outbox_dead_letter";
    for row in query(db, letters).await? {
        let payload: Vec<u8> = row.try_get_by_index(2)?;
        history.letters.push(Letter {
            consumer: row.try_get_by_index(0)?,
            mark: scenario::mark_of(&payload),
            message_id: row.try_get_by_index(1)?,
            reason: row.try_get_by_index(3)?,
        });
    }
    Ok(history)
}

async fn query(db: &TestDb, sql: &str) -> Result<Vec<QueryResult>, DbErr> {
    let conn = db.connection();
    let statement = Statement::from_string(conn.get_database_backend(), sql);
    conn.query_all_raw(statement).await
}
