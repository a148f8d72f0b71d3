//! A charge that cannot be taken back now is taken back later, before its message is claimed again.

use super::quarantine::{
    commit_a_suspect, letters, steal, until_no_record, ways_that_can_lose_a_lease,
};
use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger};
use crate::engine::support::ways::{WAYS, start_with};
use outbox_runtime::QueueBuilder;
use outbox_tests::{Engine, every_engine};
use sea_orm::sqlx::Database as Sqlx;
use sea_orm::sqlx::pool::PoolOptions;
use sea_orm::sqlx::sqlite::SqlitePoolOptions;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, TransactionTrait};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a pool has no connection to give.
#[derive(Clone, Default)]
struct Outage(Arc<AtomicBool>);

impl Outage {
    fn begin(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    async fn wait(&self) {
        while self.0.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn of<D: Sqlx>(self, pool: PoolOptions<D>) -> PoolOptions<D> {
        let other = self.clone();
        pool.before_acquire(move |_, _| {
            let outage = self.clone();
            Box::pin(async move {
                outage.wait().await;
                Ok(true)
            })
        })
        .after_connect(move |_, _| {
            let outage = other.clone();
            Box::pin(async move {
                outage.wait().await;
                Ok(())
            })
        })
    }

    /// A pool that waits in vain for a connection while the outage lasts.
    async fn pool(&self, db: &TestDb) -> DatabaseConnection {
        let mut options = ConnectOptions::new(db.url());
        options
            .max_connections(8)
            .acquire_timeout(Duration::from_millis(100))
            .sqlx_logging(false);
        let outage = self.clone();
        match db.engine() {
            Engine::Postgres => options.map_sqlx_postgres_pool_opts(move |p| outage.clone().of(p)),
            Engine::MySql => options.map_sqlx_mysql_pool_opts(move |p| outage.clone().of(p)),
            Engine::Sqlite => options.map_sqlx_sqlite_pool_opts(move |p| outage.clone().of(p)),
        };
        Database::connect(options).await.expect("a pool")
    }
}

/// The first message of `k` is claimed by a process that died.
async fn commit_suspects(db: &TestDb, count: usize) {
    commit_many(db, &QUEUE, "k", 0..count).await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, lease_until = {}, \
         claimed_seq = {count} WHERE partition_id = {}",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
}

/// The handler of a suspect fails in time, and from then on the database does not answer until the
/// lease is long over. The suspect did not kill its process.
async fn assert_an_outage_leaves_no_death(db: &TestDb, kind: Kind, concurrency: u32) {
    create_ledger(db).await;
    let outage = Outage::default();
    let (first, begin) = (AtomicBool::new(true), outage.clone());
    let handler = Scripted::new(kind, move |_, _| {
        if first.swap(false, Ordering::SeqCst) {
            begin.begin();
            return Act::Retry;
        }
        Act::Succeed
    });
    let serve = |queue: QueueBuilder| {
        let queue = queue.lease(SHORT).retry(soon(3));
        match concurrency {
            1 => handler.serve(queue),
            many => handler.serve(queue.concurrency(many)),
        }
    };
    // Makes the cursors.
    let once = serve(eager_orders(db.connection())).start().await.unwrap();
    once.stop().await;
    commit_suspects(db, 1).await;
    let queue = eager_orders(&outage.pool(db).await);
    let running = serve(queue).start().await.unwrap();
    eventually("the failure", async || handler.calls().len() == 1).await;
    tokio::time::sleep(SHORT.duration * 3).await;
    outage.end();
    drained(db).await;
    running.stop().await;
    assert_eq!(letters(db).await, Vec::<String>::new());
    let attempts: Vec<u32> = handler.calls().iter().map(|call| call.attempts).collect();
    assert_eq!(
        attempts,
        [0, 0],
        "a failure that nobody knows of, and no death"
    );
}

#[every_engine]
async fn an_outage_that_outlasts_the_lease_leaves_no_death(db: &TestDb) {
    assert_an_outage_leaves_no_death(db, Kind::LeasedEach, 1).await;
}

#[every_engine]
async fn nor_does_it_in_a_transaction(db: &TestDb) {
    assert_an_outage_leaves_no_death(db, Kind::TransactionalEach, 1).await;
}

#[every_engine]
async fn nor_does_it_among_many_keys(db: &TestDb) {
    assert_an_outage_leaves_no_death(db, Kind::LeasedEach, 4).await;
}

/// Makes the database refuse to change a record, on a server as if a race was lost.
async fn refuse_changes(db: &TestDb) {
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON outbox_attempt FOR EACH ROW";
    let refuse = match db.engine() {
        Engine::Postgres => {
            db.execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''40P01''; END'",
            )
            .await;
            "EXECUTE FUNCTION refuse()"
        }
        Engine::MySql => "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
        Engine::Sqlite => "BEGIN SELECT RAISE(ABORT, 'no'); END",
    };
    db.execute(&format!("{trigger} {refuse}")).await;
}

async fn allow_changes(db: &TestDb) {
    match db.engine() {
        Engine::Postgres => db.execute("DROP FUNCTION refuse() CASCADE").await,
        Engine::MySql | Engine::Sqlite => db.execute("DROP TRIGGER refuse").await,
    }
}

/// Its lease was lost, and taking the charge back fails more often than it is tried at once.
#[every_engine]
async fn a_charge_that_cannot_be_taken_back_at_once_is_taken_back_later(db: &TestDb) {
    create_ledger(db).await;
    for &way in ways_that_can_lose_a_lease(db) {
        let gated = Gated::new(OnCancel::Ignore);
        commit_a_suspect(db, way, &gated).await;
        let running = start_with(db, way, &gated, LeaseConfig::default(), 1).await;
        gated.entered(1).await;
        refuse_changes(db).await;
        steal(db, way.0).await;
        gated.let_one_through();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(gated.seen.count(), 1, "{}: nothing before that", way.0);
        allow_changes(db).await;
        gated.entered(2).await;
        gated.open();
        until_no_record(db, way.0).await;
        running.stop().await;
        assert_eq!(*gated.attempts.lock().unwrap(), [0, 0], "{}", way.0);
    }
    assert_eq!(letters(db).await, Vec::<String>::new());
}

/// Stops the connection that has committed a charge until another one is the only writer.
#[derive(Clone, Default)]
struct Seizure {
    charged: Arc<AtomicBool>,
    committed: Arc<AtomicBool>,
    seized: Arc<AtomicBool>,
}

impl Seizure {
    fn watch(self, pool: SqlitePoolOptions) -> SqlitePoolOptions {
        pool.after_connect(move |connection, _| {
            let (insert, commit, next) = (self.clone(), self.clone(), self.clone());
            Box::pin(async move {
                let mut handle = connection.lock_handle().await?;
                handle.set_update_hook(move |update| {
                    if update.table == "charges" {
                        insert.charged.store(true, Ordering::SeqCst);
                    }
                });
                handle.set_commit_hook(move || {
                    let charged = commit.charged.load(Ordering::SeqCst);
                    commit.committed.fetch_or(charged, Ordering::SeqCst);
                    true
                });
                // Called as each statement goes on or ends, and before the next does anything.
                handle.set_progress_handler(1, move || {
                    while next.committed.load(Ordering::SeqCst)
                        && !next.seized.load(Ordering::SeqCst)
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    true
                });
                Ok(())
            })
        })
    }

    async fn pool(&self, db: &TestDb) -> DatabaseConnection {
        let mut options = ConnectOptions::new(db.url());
        options.max_connections(8).sqlx_logging(false);
        options.map_sqlx_sqlite_opts(|options| options.busy_timeout(Duration::from_millis(20)));
        let seizure = self.clone();
        options.map_sqlx_sqlite_pool_opts(move |pool| seizure.clone().watch(pool));
        Database::connect(options).await.expect("a pool")
    }

    /// Is the only writer for a while, from the commit of a charge on.
    async fn seize(&self, db: &TestDb) {
        eventually("a charge", async || self.committed.load(Ordering::SeqCst)).await;
        let tx = db.connection().begin().await.unwrap();
        tx.execute_unprepared("UPDATE outbox_cursor SET lease_epoch = lease_epoch")
            .await
            .unwrap();
        self.seized.store(true, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
        tx.rollback().await.unwrap();
    }
}

/// On SQLite a charge is committed before the transaction of its handler begins, and that may fail.
#[test]
fn a_charge_whose_transaction_does_not_begin_is_taken_back() {
    outbox_tests::run(Engine::Sqlite, true, |db| {
        Box::pin(seized_after_the_charge(db))
    });
}

async fn seized_after_the_charge(db: &TestDb) {
    let booked = WAYS[2];
    create_ledger(db).await;
    let gated = Gated::new(OnCancel::Ignore);
    commit_a_suspect(db, booked, &gated).await;
    // Of tables like that of the charges themselves the engine does not tell.
    db.execute("CREATE TABLE charges (seq INTEGER NOT NULL)")
        .await;
    db.execute(
        "CREATE TRIGGER noted AFTER INSERT ON outbox_attempt \
         BEGIN INSERT INTO charges (seq) VALUES (NEW.seq); END",
    )
    .await;
    let seizure = Seizure::default();
    let queue = eager_orders(&seizure.pool(db).await).consumer(booked.0);
    let running = booked.1(queue.retry(soon(1)), gated.clone());
    let running = running.start().await.unwrap();
    seizure.seize(db).await;
    gated.open();
    drained(db).await;
    running.stop().await;
    assert_eq!(letters(db).await, Vec::<String>::new());
    assert_eq!(
        *gated.attempts.lock().unwrap(),
        [0],
        "no charge before it ran"
    );
}

/// Nothing is taken back that is not there: the record counts what the other process found.
#[every_engine]
async fn no_charge_is_taken_back_twice(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    commit_a_suspect(db, WAYS[0], &gated).await;
    let running = start_with(db, WAYS[0], &gated, LeaseConfig::default(), 5).await;
    gated.entered(1).await;
    // Another process has made a failure of the charge, with one more.
    db.execute("UPDATE outbox_attempt SET deaths = 0, failures = 2")
        .await;
    steal(db, WAYS[0].0).await;
    gated.let_one_through();
    gated.entered(2).await;
    gated.open();
    until_no_record(db, WAYS[0].0).await;
    running.stop().await;
    assert_eq!(*gated.attempts.lock().unwrap(), [0, 2]);
}
