//! Time is up in the middle of a statement: its connection is not lost.

use super::*;
use outbox_runtime::{Outbox, OutboxProfile, TransactionalMessageHandler};
use outbox_tests::mysql;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbErr,
    ExecResult, Statement, TransactionTrait,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// While a change of a table waits for a reader, the server does not even prepare a statement on
/// it. If the statement were dropped then, its connection would never answer again.
struct LockedTable {
    reader: DatabaseTransaction,
    changing: JoinHandle<Result<ExecResult, DbErr>>,
}

impl LockedTable {
    async fn lock(db: &TestDb, table: &str) -> Self {
        let reader = db.connection().begin().await.unwrap();
        let read = format!("SELECT COUNT(*) FROM {table}");
        reader.execute_unprepared(&read).await.unwrap();
        let change = format!("ALTER TABLE {table} COMMENT = 'changed'");
        let other = db.connect().await;
        let changing = tokio::spawn(async move { other.execute_unprepared(&change).await });
        waiting(db, &format!("ALTER TABLE {table}")).await;
        Self { reader, changing }
    }

    async fn unlock(self) {
        self.reader.rollback().await.unwrap();
        self.changing.await.unwrap().unwrap();
    }
}

/// Waits until the server holds up a statement that begins like that.
async fn waiting(db: &TestDb, beginning: &str) {
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db = DATABASE() AND info LIKE '{beginning}%' AND state LIKE 'Waiting%'"
    );
    eventually(beginning, async || db.number(&waiting).await > 0).await;
}

async fn pool(db: &TestDb, connections: u32) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(connections).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

/// Closing waits for every connection.
async fn every_connection_came_back(pool: DatabaseConnection) {
    let closing = tokio::time::timeout(Duration::from_secs(20), pool.close());
    closing.await.expect("a connection is lost").unwrap();
}

/// Writes to a table that others lock, in words that the server has not prepared yet.
#[derive(Clone, Default)]
struct UnpreparedWriter(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl TransactionalMessageHandler for UnpreparedWriter {
    async fn handle(&self, tx: &DatabaseTransaction, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let n = self.0.fetch_add(1, Ordering::AcqRel);
        let sql = format!("INSERT INTO gate (a, b, c) VALUES (?, ?, ?) /* {n} */");
        let values = [1.into(), 2.into(), 3.into()];
        let statement = Statement::from_sql_and_values(tx.get_database_backend(), sql, values);
        match tx.execute_raw(statement).await {
            Ok(_) => HandlerResult::Success,
            Err(error) => HandlerResult::retry(error),
        }
    }
}

async fn handlers_are_dropped_while_a_statement_is_prepared(
    db: &TestDb,
    timeout: Option<Duration>,
) {
    db.execute("CREATE TABLE gate (a INT, b INT, c INT)").await;
    // Fewer than the handlers that are dropped.
    let pool = pool(db, 4).await;
    let writer = UnpreparedWriter::default();
    let mut queue = Outbox::builder(pool.clone())
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .retry(soon(1_000))
        .lease(LeaseConfig {
            duration: Duration::from_millis(600),
            headroom: Duration::from_millis(200),
        });
    if let Some(timeout) = timeout {
        queue = queue.timeout(timeout);
    }
    let running = queue.transactional(writer.clone()).start().await.unwrap();
    for round in 1..=5 {
        let gate = LockedTable::lock(db, "gate").await;
        let before = writer.0.load(Ordering::Acquire);
        commit(db.connection(), "k", round).await;
        eventually("the handler", async || {
            writer.0.load(Ordering::Acquire) > before
        })
        .await;
        // Past the end of the lease.
        tokio::time::sleep(Duration::from_millis(700)).await;
        gate.unlock().await;
        let rows = i64::try_from(round).unwrap();
        eventually("the row", async || {
            db.number("SELECT COUNT(*) FROM gate").await == rows
        })
        .await;
    }
    running.stop().await;
    every_connection_came_back(pool).await;
}

#[mysql]
async fn a_statement_dropped_at_the_end_of_a_lease_loses_no_connection(db: &TestDb) {
    handlers_are_dropped_while_a_statement_is_prepared(db, None).await;
}

#[mysql]
async fn a_statement_dropped_at_the_end_of_a_timeout_loses_no_connection(db: &TestDb) {
    handlers_are_dropped_while_a_statement_is_prepared(db, Some(Duration::from_millis(100))).await;
}

/// Fails the first time, when it is told to.
#[derive(Clone, Default)]
struct FailsOnce {
    seen: Seen,
    fail: Arc<Notify>,
}

#[async_trait::async_trait]
impl LeasedMessageHandler for FailsOnce {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let first = self.seen.all().is_empty();
        self.seen.add(message);
        if first {
            self.fail.notified().await;
            return HandlerResult::retry("the first time");
        }
        HandlerResult::Success
    }
}

/// With many keys at a time failures are written down while the lease runs.
#[mysql]
async fn bookkeeping_dropped_at_the_end_of_a_lease_loses_no_connection(db: &TestDb) {
    let pool = pool(db, 8).await;
    let handler = FailsOnce::default();
    let running = eager_orders(&pool)
        .retry(soon(1_000))
        .lease(LeaseConfig {
            duration: Duration::from_secs(3),
            headroom: Duration::from_secs(1),
        })
        .concurrency(4)
        .leased(handler.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    handler.seen.reaches(1).await;
    let attempts = LockedTable::lock(db, "outbox_attempt").await;
    handler.fail.notify_one();
    waiting(db, "INSERT INTO outbox_attempt").await;
    let now = db.from_now(0);
    let over = format!("SELECT COUNT(*) FROM outbox_cursor WHERE lease_until <= {now}");
    eventually("the end of the lease", async || db.number(&over).await == 1).await;
    attempts.unlock().await;
    handler.seen.reaches(2).await;
    running.stop().await;
    every_connection_came_back(pool).await;
}

/// The caller may drop a drain in the middle of a poll.
#[mysql]
async fn a_dropped_drain_loses_no_connection(db: &TestDb) {
    let pool = pool(db, 8).await;
    let running = orders(&pool).leased(Seen::default()).start().await.unwrap();
    for table in ["outbox_incoming", "outbox_partition", "outbox_cursor"] {
        let gate = LockedTable::lock(db, table).await;
        for _ in 0..3 {
            let limit = Duration::from_millis(100);
            let drained = tokio::time::timeout(limit, running.drained());
            drained.await.expect_err("the table is closed");
        }
        gate.unlock().await;
    }
    running.drained().await.unwrap();
    running.stop().await;
    every_connection_came_back(pool).await;
}
