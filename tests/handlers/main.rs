//! Handlers made of functions, on three engines.
//!
//! A program of its own: its handlers would join every outbox of the suite. Each
//! module has queues of its own, and starts only the handlers it names.

mod batches;
mod cascade;
mod decoding;
mod delivery;
mod log;
mod order;
mod policies;
mod registry;
mod selection;
mod testing;

use outbox::prelude::*;
use outbox::{HandlerRegistration, OutboxBuilder, OutboxHandle};
use outbox_tests::{TestDb, eventually};
use std::fmt::Display;
use std::sync::{Arc, Mutex};

/// What handlers noted, in order; given to them as a state.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, text: impl Display) {
        self.0.lock().unwrap().push(text.to_string());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// What begins with `prefix`, without it.
    fn of(&self, prefix: &str) -> Vec<String> {
        let notes = self.all();
        let notes = notes.iter().filter_map(|note| note.strip_prefix(prefix));
        notes.map(str::to_owned).collect()
    }

    async fn reaches(&self, prefix: &str, count: usize) {
        eventually(&format!("{count} notes of `{prefix}`"), async || {
            self.of(prefix).len() >= count
        })
        .await;
    }
}

/// An outbox of these handlers and no others.
fn builder(
    db: &TestDb,
    handlers: impl IntoIterator<Item = HandlerRegistration>,
    journal: &Journal,
) -> OutboxBuilder {
    Outbox::builder(db.connection().clone())
        .profile(OutboxProfile::low_latency())
        .without_discovery()
        .handlers(handlers)
        .state(journal.clone())
}

async fn start(
    db: &TestDb,
    handlers: impl IntoIterator<Item = HandlerRegistration>,
    journal: &Journal,
) -> OutboxHandle {
    let started = builder(db, handlers, journal).start().await;
    started.expect("the outbox starts")
}

/// Where transactional handlers write; it would have two rows for what is done twice.
async fn create_ledger(db: &TestDb) {
    db.execute("CREATE TABLE ledger (consumer VARCHAR(64) NOT NULL, note BIGINT NOT NULL)")
        .await;
}

async fn write(tx: &DatabaseTransaction, consumer: &str, note: i64) -> Result<(), HandlerError> {
    let sql = format!("INSERT INTO ledger (consumer, note) VALUES ('{consumer}', {note})");
    tx.execute_unprepared(&sql).await?;
    Ok(())
}

async fn ledger(db: &TestDb, consumer: &str) -> Vec<i64> {
    let sql = format!("SELECT note FROM ledger WHERE consumer = '{consumer}' ORDER BY note");
    db.column(&sql).await
}

/// The consumer's dead letters: a column of each, in the order they were enqueued.
async fn letters(db: &TestDb, consumer: &str, column: &str) -> Vec<String> {
    let column = match column {
        "attempts" => "TRIM(CAST(attempts AS CHAR(9)))",
        column => column,
    };
    let sql = format!(
        "SELECT {column} FROM outbox_dead_letter WHERE consumer = '{consumer}' ORDER BY message_id"
    );
    db.texts(&sql).await
}

fn numbers(range: std::ops::RangeInclusive<i64>) -> Vec<String> {
    range.map(|n| n.to_string()).collect()
}
