//! A process of its own that delivers, for tests with several: it can be killed.
//!
//! It connects to the database it is given, runs a leased consumer `default` and a
//! transactional consumer `ledger` of one queue, and writes every delivery to the
//! test's table; told so, one of them aborts the process at a message. It stops in order when its standard input ends, so that none
//! outlives its test.

use outbox_runtime::{
    Ctx, HandlerResult, LeaseConfig, LeasedMessageHandler, Outbox, OutboxMessage, OutboxProfile,
    Partitions, RetryPolicy, TransactionalMessageHandler,
};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbErr,
    Statement,
};
use std::io::Read;
use std::time::Duration;

struct Options {
    url: String,
    queue: String,
    partitions: u32,
    /// How long a delivery takes.
    pace: Duration,
    /// How many keys of a partition the leased consumer has at a time.
    concurrency: u32,
    /// How many messages are claimed at once.
    batch: u32,
    poison: Option<Poison>,
}

/// The message that kills the process.
#[derive(Clone, PartialEq)]
struct Poison {
    consumer: String,
    text: String,
    max_attempts: u32,
}

impl Options {
    /// `url queue partitions pace-in-microseconds[/concurrency[/batch]] [consumer text max-attempts]`
    fn read() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        let (url, queue) = (arguments.next()?, arguments.next()?);
        let partitions = arguments.next()?.parse().ok()?;
        let pace = arguments.next()?;
        let (pace, concurrency) = pace.split_once('/').unwrap_or((&pace, "1"));
        let (concurrency, batch) = concurrency.split_once('/').unwrap_or((concurrency, "20"));
        Some(Self {
            url,
            queue,
            partitions,
            pace: Duration::from_micros(pace.parse().ok()?),
            concurrency: concurrency.parse().ok()?,
            batch: batch.parse().ok()?,
            poison: match arguments.next() {
                None => None,
                Some(consumer) => Some(Poison {
                    consumer,
                    text: arguments.next()?,
                    max_attempts: arguments.next()?.parse().ok()?,
                }),
            },
        })
    }
}

/// Leased: written outside any transaction, so a delivery may be there twice.
struct Record {
    db: DatabaseConnection,
    pace: Duration,
    poison: Option<Poison>,
}

/// Transactional: written with the acknowledgement, so it must be there once.
struct Book {
    pace: Duration,
    poison: Option<Poison>,
}

/// Dies at the message that it was told to die at.
fn perhaps_abort(poison: Option<&Poison>, consumer: &str, message: &OutboxMessage) {
    let deadly = |poison: &Poison| {
        poison.consumer == consumer && poison.text.as_bytes() == message.payload()
    };
    if poison.is_some_and(deadly) {
        std::process::abort();
    }
}

async fn write(
    conn: &impl ConnectionTrait,
    consumer: &str,
    message: &OutboxMessage,
) -> Result<(), DbErr> {
    let text = String::from_utf8_lossy(message.payload());
    // What follows is there to make it large.
    let text = text.split(' ').next().unwrap_or_default();
    let sql = format!(
        "INSERT INTO delivery (consumer, worker, note) VALUES ('{consumer}', {}, '{text}')",
        std::process::id()
    );
    let statement = Statement::from_string(conn.get_database_backend(), sql);
    conn.execute_raw(statement).await.map(drop)
}

fn outcome(written: Result<(), DbErr>) -> HandlerResult {
    match written {
        Ok(()) => HandlerResult::Success,
        Err(error) => HandlerResult::retry_after(Duration::from_millis(20), error),
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Record {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        perhaps_abort(self.poison.as_ref(), "default", message);
        let written = write(&self.db, "default", message).await;
        tokio::time::sleep(self.pace).await;
        outcome(written)
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Book {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        perhaps_abort(self.poison.as_ref(), "ledger", message);
        let written = write(tx, "ledger", message).await;
        tokio::time::sleep(self.pace).await;
        outcome(written)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let usage = "usage: url queue partitions pace-in-microseconds[/concurrency[/batch]] [consumer text max-attempts]";
    let options = Options::read().ok_or(usage)?;
    let partitions = Partitions::try_of(options.partitions)?;
    let mut connect = ConnectOptions::new(&options.url);
    connect.max_connections(12).sqlx_logging(false);
    let db = Database::connect(connect).await?;
    // A worker that is to die of one message, and of nothing else, needs time on a busy machine.
    let lease = Duration::from_millis(if options.poison.is_some() { 2_000 } else { 600 });
    let lease = LeaseConfig {
        duration: lease,
        headroom: lease / 3,
    };
    let mut retry = RetryPolicy::default();
    if let Some(poison) = &options.poison {
        retry.max_attempts = poison.max_attempts;
    }
    let record = Record {
        db: db.clone(),
        pace: options.pace,
        poison: options.poison.clone(),
    };
    let book = Book {
        pace: options.pace,
        poison: options.poison,
    };
    let running = Outbox::builder(db)
        .profile(OutboxProfile::low_latency())
        .queue(&options.queue, partitions)
        .lease(lease)
        .retry(retry)
        .batch(options.batch)
        .concurrency(options.concurrency)
        .leased(record)
        .queue(&options.queue, partitions)
        .consumer("ledger")
        .batch(options.batch)
        .lease(lease)
        .retry(retry)
        .transactional(book)
        .start()
        .await?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    running.stop().await;
    Ok(())
}
