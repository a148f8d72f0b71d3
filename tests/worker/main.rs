//! A process of its own that delivers, for tests with several: it can be killed.
//!
//! It connects to the database it is given, runs a leased consumer `default` and a
//! transactional consumer `ledger` of one queue, and writes every delivery to the
//! test's table. It stops in order when its standard input ends, so that none
//! outlives its test.

use outbox_runtime::{
    Ctx, HandlerResult, LeaseConfig, LeasedMessageHandler, Outbox, OutboxMessage, OutboxProfile,
    Partitions, TransactionalMessageHandler,
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
}

impl Options {
    /// `url queue partitions pace-in-microseconds`
    fn read() -> Option<Self> {
        let mut arguments = std::env::args().skip(1);
        Some(Self {
            url: arguments.next()?,
            queue: arguments.next()?,
            partitions: arguments.next()?.parse().ok()?,
            pace: Duration::from_micros(arguments.next()?.parse().ok()?),
        })
    }
}

/// Leased: written outside any transaction, so a delivery may be there twice.
struct Record {
    db: DatabaseConnection,
    pace: Duration,
}

/// Transactional: written with the acknowledgement, so it must be there once.
struct Book {
    pace: Duration,
}

async fn write(
    conn: &impl ConnectionTrait,
    consumer: &str,
    message: &OutboxMessage,
) -> Result<(), DbErr> {
    let text = String::from_utf8_lossy(message.payload()).into_owned();
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
        let written = write(tx, "ledger", message).await;
        tokio::time::sleep(self.pace).await;
        outcome(written)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::read().ok_or("usage: url queue partitions pace-in-microseconds")?;
    let partitions = Partitions::try_of(options.partitions)?;
    let mut connect = ConnectOptions::new(&options.url);
    connect.max_connections(12).sqlx_logging(false);
    let db = Database::connect(connect).await?;
    let lease = LeaseConfig {
        duration: Duration::from_millis(600),
        headroom: Duration::from_millis(200),
    };
    let record = Record {
        db: db.clone(),
        pace: options.pace,
    };
    let running = Outbox::builder(db)
        .profile(OutboxProfile::low_latency())
        .queue(&options.queue, partitions)
        .lease(lease)
        .leased(record)
        .queue(&options.queue, partitions)
        .consumer("ledger")
        .lease(lease)
        .transactional(Book { pace: options.pace })
        .start()
        .await?;
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    running.stop().await;
    Ok(())
}
