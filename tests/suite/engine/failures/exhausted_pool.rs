//! A pool without a free connection charges no message.

use super::slow_database::{TOO_LATE, answer_at_once, seize_as_a_dead_process, slow_down_charges};
use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::Outbox;
use outbox_tests::{Engine, every_engine, every_server};
use sea_orm::sqlx::Database as Sqlx;
use sea_orm::sqlx::pool::PoolOptions;
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, Statement,
    TransactionTrait,
};
use std::time::Instant;

const CONNECTIONS: u32 = 8;
const PATIENCE: Duration = Duration::from_millis(150);

/// A pool whose callers soon give up waiting for a connection.
async fn small_pool(db: &TestDb) -> DatabaseConnection {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .sqlx_logging(false);
    Database::connect(options).await.expect("a pool")
}

/// Takes every connection of a pool and holds them; now and then one is free for
/// a statement.
async fn starve(pool: &DatabaseConnection, until: Instant) {
    let mut held: Vec<DatabaseTransaction> = Vec::new();
    while Instant::now() < until {
        match pool.begin().await {
            Ok(tx) => held.push(tx),
            Err(_) => {
                // The first waiter gets it, and then no other for a while.
                if let Some(tx) = held.pop() {
                    tx.rollback().await.expect("rollback");
                }
            }
        }
    }
}

const ATTEMPTS: u32 = 3;
/// Longer than a lease.
const STARVED_FOR: Duration = Duration::from_millis(900);

/// Has no connection for a while whenever a message was charged once more.
struct Starving {
    /// Not of the exhausted pool.
    db: DatabaseConnection,
    /// The highest charge so far, and when it was seen.
    charged: Mutex<(u32, Instant)>,
}

impl Starving {
    /// While it lasts, every caller of the pool times out. It lasts until the engine gives up
    /// settling the claim.
    async fn wait(&self) {
        let known = self.charged.lock().unwrap().0;
        let more = format!("SELECT 1 FROM outbox_attempt WHERE deaths > {known}");
        let more = Statement::from_string(self.db.get_database_backend(), more);
        // After the last attempt the only charge left is the one for the dead letter.
        if known < ATTEMPTS && self.db.query_one_raw(more).await.unwrap().is_some() {
            *self.charged.lock().unwrap() = (known + 1, Instant::now());
        }
        let until = self.charged.lock().unwrap().1 + STARVED_FOR;
        tokio::time::sleep_until(until.into()).await;
    }

    fn starve<D: Sqlx>(self: Arc<Self>, pool: PoolOptions<D>) -> PoolOptions<D> {
        let other = self.clone();
        pool.before_acquire(move |_, _| {
            let starving = self.clone();
            Box::pin(async move {
                starving.wait().await;
                Ok(true)
            })
        })
        .after_connect(move |_, _| {
            let starving = other.clone();
            Box::pin(async move {
                starving.wait().await;
                Ok(())
            })
        })
    }
}

/// A pool without a connection for longer than a lease after each charge.
async fn starving_pool(db: &TestDb) -> DatabaseConnection {
    let past = Instant::now() - STARVED_FOR;
    let starving = Arc::new(Starving {
        db: db.connect().await,
        charged: Mutex::new((0, past)),
    });
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(CONNECTIONS)
        .acquire_timeout(PATIENCE)
        .sqlx_logging(false);
    match db.engine() {
        Engine::Postgres => {
            options.map_sqlx_postgres_pool_opts(move |pool| starving.clone().starve(pool))
        }
        Engine::MySql => {
            options.map_sqlx_mysql_pool_opts(move |pool| starving.clone().starve(pool))
        }
        Engine::Sqlite => {
            options.map_sqlx_sqlite_pool_opts(move |pool| starving.clone().starve(pool))
        }
    };
    Database::connect(options).await.expect("a pool")
}

/// A message whose claim died is charged before its handler runs. A server answers the charge late,
/// SQLite at once. Either way the pool has no free connection from then on.
async fn assert_charge_is_taken_back(db: &TestDb, kind: Kind, concurrency: u32) {
    create_ledger(db).await;
    let handler = Scripted::new(kind, |_, _| Act::Succeed);
    let start = async |pool: DatabaseConnection| {
        let queue = eager_orders(&pool).lease(SHORT).retry(soon(ATTEMPTS));
        let queue = match concurrency {
            1 => queue,
            many => queue.concurrency(many),
        };
        handler.serve(queue).start().await.unwrap()
    };
    // Makes the cursors.
    start(db.connect().await).await.stop().await;
    commit(db.connection(), "k", 0).await;
    let slow = db.engine() != Engine::Sqlite;
    if slow {
        slow_down_charges(db, TOO_LATE).await;
    }
    seize_as_a_dead_process(db).await;
    let running = start(starving_pool(db).await).await;
    // More than it takes to use up all attempts.
    tokio::time::sleep(STARVED_FOR * 8).await;
    if slow {
        answer_at_once(db).await;
    }
    drained(db).await;
    running.stop().await;
    let buried = db.texts("SELECT reason FROM outbox_dead_letter").await;
    assert_eq!(buried, Vec::<String>::new());
    let attempts: Vec<u32> = handler.calls().iter().map(|call| call.attempts).collect();
    assert_eq!(attempts, [0], "no charge before it ran");
}

#[every_engine]
async fn a_charge_is_taken_back_although_the_pool_is_exhausted(db: &TestDb) {
    assert_charge_is_taken_back(db, Kind::TransactionalEach, 1).await;
}

/// Nothing can be written before the lease is over: the process remembers what it owes.
#[every_server]
async fn a_leased_handlers_charge_is_taken_back_although_the_pool_is_exhausted(db: &TestDb) {
    assert_charge_is_taken_back(db, Kind::LeasedEach, 1).await;
}

#[every_server]
async fn a_charge_among_many_keys_is_taken_back_although_the_pool_is_exhausted(db: &TestDb) {
    assert_charge_is_taken_back(db, Kind::LeasedEach, 8).await;
}

/// The connection cache holds some connections for the outbox's own statements, so that it can go
/// on claiming. A handler's transaction needs one of the pool.
#[every_engine]
async fn an_exhausted_pool_makes_no_dead_letter_of_a_message_that_never_ran(db: &TestDb) {
    create_ledger(db).await;
    let pool = small_pool(db).await;
    let handler = Scripted::new(Kind::TransactionalEach, |_, _| Act::Succeed);
    let queue = Outbox::builder(pool.clone())
        .profile(outbox_runtime::OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .lease(SHORT)
        .retry(soon(3));
    let running = handler.serve(queue).start().await.unwrap();
    // Something to do, so that there are connections to cache.
    commit_many(db, &QUEUE, "warm", 0..20).await;
    eventually("a warm start", async || handler.calls().len() == 20).await;
    let starving = starve(&pool, Instant::now() + SHORT.duration * 10);
    let sending = async {
        for n in 0..60 {
            commit(db.connection(), &format!("k{}", n % 8), n).await;
            tokio::time::sleep(SHORT.duration / 10).await;
        }
    };
    tokio::join!(starving, sending);
    drained(db).await;
    running.stop().await;
    let buried = db.texts("SELECT reason FROM outbox_dead_letter").await;
    assert_eq!(buried, Vec::<String>::new());
    let booked = ledger(db, &handler.kind().consumer()).await;
    assert_eq!(booked.len(), 80, "each once: {booked:?}");
    // Each charge is for a call.
    for call in handler.calls() {
        let calls = handler.calls_for(&call.text);
        let before = calls.iter().filter(|other| other.at < call.at).count();
        assert!(call.attempts as usize <= before, "{call:?} of {calls:?}");
    }
}
