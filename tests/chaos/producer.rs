//! Transactions that write events and, with them, what they wrote.
//!
//! Some are rolled back, some have savepoints, some end with the process between
//! enqueue and commit, some take long to commit while others overtake them.

use crate::journal::{Entry, Journal};
use crate::process::{Ending, statement};
use crate::scenario::{self, EVENT_TYPES};
use outbox_runtime::{EnqueueError, NewMessage, Queue, enqueue, enqueue_batch};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, IsolationLevel,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use std::time::Duration;

/// Transactions at a time.
const TASKS: usize = 4;

pub(crate) async fn run(db: &DatabaseConnection, journal: &Journal, ending: Ending) {
    let keys = scenario::keys();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (db, journal, ending) = (db.clone(), journal.clone(), ending.clone());
            tokio::spawn(produce(db, journal, ending, keys.clone()))
        })
        .collect();
    for task in tasks {
        task.await.expect("a producer that does not panic");
    }
}

async fn produce(
    db: DatabaseConnection,
    journal: Journal,
    ending: Ending,
    keys: Vec<(String, Queue)>,
) {
    while !*ending.borrow() {
        // What became of a transaction that failed is for the checker to find out.
        let pause = match transact(&db, &journal, &keys).await {
            Ok(()) => fastrand::u64(10..90),
            Err(_) => fastrand::u64(20..200),
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// How a transaction ends.
#[derive(Clone, Copy)]
enum End {
    Commit,
    RollBack,
    Die,
}

async fn transact(
    db: &DatabaseConnection,
    journal: &Journal,
    keys: &[(String, Queue)],
) -> Result<(), DbErr> {
    let end = match fastrand::u32(0..1_000) {
        0 => End::Die,
        1..80 => End::RollBack,
        _ => End::Commit,
    };
    let tx = begin(db).await?;
    let mut marks = Vec::new();
    // In the order of keys, or two transactions would wait for each other.
    let mut chosen = fastrand::choose_multiple(keys.iter(), fastrand::usize(1..=3));
    chosen.sort_by(|a, b| a.0.cmp(&b.0));
    for (key, queue) in chosen {
        if fastrand::u32(0..8) == 0 {
            let nested = tx.begin().await?;
            let written = write(&nested, key, queue).await?;
            if fastrand::bool() {
                nested.commit().await?;
                marks.extend(written);
            } else {
                nested.rollback().await?;
                journal
                    .write(&Entry::RolledBack(written))
                    .expect("the journal");
            }
        } else {
            marks.extend(write(&tx, key, queue).await?);
        }
    }
    let slow = fastrand::u32(0..20) == 0;
    let pause = fastrand::u64(0..if slow { 300 } else { 10 });
    tokio::time::sleep(Duration::from_millis(pause)).await;
    match end {
        End::Commit => {
            tx.commit().await?;
            journal
                .write(&Entry::Committed(marks))
                .expect("the journal");
        }
        End::RollBack => {
            tx.rollback().await?;
            journal
                .write(&Entry::RolledBack(marks))
                .expect("the journal");
        }
        End::Die => {
            journal.write(&Entry::Dying).expect("the journal");
            std::process::abort();
        }
    }
    Ok(())
}

/// With one isolation or another; on SQLite as the writer, for a reader that wants to
/// become one cannot wait.
async fn begin(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let mut options = TransactionOptions::default();
    if db.get_database_backend() == DbBackend::Sqlite {
        options.sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    } else {
        options.isolation_level = match fastrand::u32(0..10) {
            0 => Some(IsolationLevel::Serializable),
            1 => Some(IsolationLevel::RepeatableRead),
            2..5 => Some(IsolationLevel::ReadCommitted),
            _ => None,
        };
    }
    db.begin_with_options(options).await
}

/// Enqueues a few events of a key; returns their marks.
async fn write(tx: &DatabaseTransaction, key: &str, queue: &Queue) -> Result<Vec<i64>, DbErr> {
    let count = fastrand::i64(1..=3);
    let counted = "UPDATE chaos_key SET n = n + ? WHERE k = ?";
    tx.execute_raw(statement(tx, counted, [count.into(), key.into()]))
        .await?;
    let last = "SELECT n FROM chaos_key WHERE k = ?";
    let last = tx.query_one_raw(statement(tx, last, [key.into()])).await?;
    let last: i64 = last
        .ok_or(DbErr::RecordNotFound(key.to_owned()))?
        .try_get_by_index(0)?;
    let events: Vec<(i64, i64)> = (last - count + 1..=last)
        .map(|n| (n, fastrand::i64(0..=i64::MAX)))
        .collect();
    let messages = events.iter().map(|(n, mark)| {
        let event_type = *fastrand::choice(&EVENT_TYPES).expect("some types");
        NewMessage::new(event_type, key, scenario::payload(*mark, key, *n))
    });
    let ids = enqueue_some(tx, queue, messages.collect()).await?;
    for ((n, mark), id) in events.iter().zip(ids) {
        let insert =
            "INSERT INTO chaos_event (mark, queue, k, n, message_id) VALUES (?, ?, ?, ?, ?)";
        let values = [
            (*mark).into(),
            queue.name().into(),
            key.into(),
            (*n).into(),
            id.into(),
        ];
        tx.execute_raw(statement(tx, insert, values)).await?;
    }
    Ok(events.into_iter().map(|(_, mark)| mark).collect())
}

/// One by one or as a list: the statements differ.
async fn enqueue_some(
    tx: &DatabaseTransaction,
    queue: &Queue,
    messages: Vec<NewMessage>,
) -> Result<Vec<i64>, EnqueueError> {
    let mut ids = Vec::with_capacity(messages.len());
    if fastrand::bool() {
        let list = enqueue_batch(tx, queue, messages).await?;
        ids.extend(list.iter().map(|id| id.get()));
    } else {
        for message in messages {
            ids.push(enqueue(tx, queue, message).await?.get());
        }
    }
    Ok(ids)
}
