//! Counters: the server's own where there is one, and what the client sends.

use crate::figures::Table;
use outbox_tests::{CountingProxy, Engine, TestDb};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, Statement};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Reads what something costs, column by column.
pub(crate) struct Meter {
    engine: Engine,
    /// Where what is asked is counted.
    url: String,
    statements: Arc<AtomicU64>,
    /// To read the server's counters.
    own: DatabaseConnection,
    heading: String,
    counters: Vec<Counter>,
    /// What a reading itself adds to each, and how many there were.
    reading: Vec<f64>,
    readings: AtomicU32,
}

/// Adds up some columns.
enum Counter {
    /// What this client asks, but for the ends of transactions.
    Statements,
    RoundTrips(CountingProxy),
    /// What the server says: columns, and a query for a list of as many numbers.
    Server(&'static [&'static str], String),
    /// A file that only grows.
    Size(&'static str, PathBuf),
}

/// Everything of this database but the reading itself.
const POSTGRES_STATEMENTS: &str = "\
    SELECT ARRAY[COALESCE(SUM(calls), 0), COALESCE(SUM(shared_blks_hit + shared_blks_read), 0)]\
        ::float8[]::text \
    FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
        AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_wal%'";

/// Where the write-ahead log is, by writing to it: its commit waits for the disk, and so for
/// all before it.
const POSTGRES_LOG: &str = "\
    SELECT pg_wal_lsn_diff(pg_logical_emit_message(true, 'costs', ''), '0/0')::float8::text";

/// Rows in the log from a position on.
fn rows_since(start: &str) -> String {
    format!(
        "SELECT COALESCE(SUM(count), 0)::float8::text \
         FROM pg_get_wal_stats('{start}', pg_current_wal_flush_lsn(), true) AS pg_wal \
         WHERE \"resource_manager/record_type\" ~ '^Heap/(INSERT|UPDATE|HOT_UPDATE|DELETE)'"
    )
}

/// `Handler_…` counts rows, temporary tables' too, in whatever way they are found. (Bytes of
/// the redo log do not repeat: InnoDB's purge writes there when it likes.)
const MYSQL: &str = "\
    SELECT CONCAT( \
        SUM(CASE WHEN variable_name IN ('HANDLER_WRITE', 'HANDLER_UPDATE', 'HANDLER_DELETE') \
            THEN variable_value ELSE 0 END), ',', \
        SUM(CASE WHEN variable_name LIKE 'HANDLER_READ%' THEN variable_value ELSE 0 END)) \
    FROM information_schema.global_status";

impl Meter {
    /// Counts what the client asks and what the server does. No other test uses this server.
    pub(crate) async fn of(db: &TestDb) -> Self {
        let mut meter = Self::of_client(db).await;
        match db.engine() {
            Engine::Postgres => {
                let log = Counter::Server(&["WAL bytes"], POSTGRES_LOG.to_owned());
                meter.counters.push(log);
                let version = db.number("SELECT current_setting('server_version_num')::bigint");
                // Earlier versions have no way to read their log.
                if version.await >= 150_000 {
                    db.execute("CREATE EXTENSION pg_walinspect").await;
                    let start = db.texts("SELECT pg_current_wal_flush_lsn()::text").await;
                    let rows = Counter::Server(&["rows written"], rows_since(&start[0]));
                    meter.counters.push(rows);
                }
            }
            Engine::MySql => {
                let columns = &["rows written", "rows read"];
                let rows = Counter::Server(columns, MYSQL.to_owned());
                meter.counters.push(rows);
            }
            Engine::Sqlite => {
                let file = db.url().trim_start_matches("sqlite://");
                let file = file.split('?').next().expect("a path");
                let log = PathBuf::from(format!("{file}-wal"));
                meter.counters.push(Counter::Size("WAL bytes", log));
            }
        }
        // The first has something to prepare.
        meter.counters().await;
        let (first, second) = (meter.counters().await, meter.counters().await);
        let added = first.iter().zip(second);
        meter.reading = added.map(|(first, second)| second - first).collect();
        meter
    }

    /// Counts what the client asks.
    pub(crate) async fn of_client(db: &TestDb) -> Self {
        let proxy = match db.engine() {
            Engine::Sqlite => None,
            Engine::Postgres | Engine::MySql => Some(CountingProxy::start(db.url()).await),
        };
        let url = proxy
            .as_ref()
            .map_or(db.url(), CountingProxy::url)
            .to_owned();
        // First of all: it waits until nothing happens any more.
        let mut counters = Vec::from_iter(proxy.map(Counter::RoundTrips));
        counters.push(match db.engine() {
            // The server counts better.
            Engine::Postgres => {
                Counter::Server(&["statements", "buffers"], POSTGRES_STATEMENTS.to_owned())
            }
            Engine::MySql | Engine::Sqlite => Counter::Statements,
        });
        let columns: usize = counters.iter().map(|counter| counter.columns().len()).sum();
        Self {
            engine: db.engine(),
            url,
            statements: Arc::default(),
            own: db.connect().await,
            heading: heading(db).await,
            counters,
            reading: vec![0.0; columns],
            readings: AtomicU32::new(0),
        }
    }

    /// A connection whose work is counted. There is only one: a new connection has to prepare every
    /// statement, and when a pool opens one is chance.
    pub(crate) async fn connect(&self) -> DatabaseConnection {
        self.connect_up_to(1).await
    }

    /// As few as an outbox needs.
    pub(crate) async fn connect_outbox(&self) -> DatabaseConnection {
        let needed = match self.engine {
            // It keeps a quarter of them.
            Engine::Postgres => 4,
            // A claim may not have that of the handlers' transaction.
            Engine::MySql | Engine::Sqlite => 2,
        };
        self.connect_up_to(needed).await
    }

    async fn connect_up_to(&self, most: u32) -> DatabaseConnection {
        let mut options = ConnectOptions::new(&self.url);
        options
            .max_connections(most)
            .sqlx_logging(false)
            // The log then only grows.
            .map_sqlx_sqlite_opts(|sqlite| sqlite.pragma("wal_autocheckpoint", "0"));
        let mut db = Database::connect(options).await.expect("the database");
        let statements = self.statements.clone();
        db.set_metric_callback(move |_| {
            statements.fetch_add(1, Ordering::SeqCst);
        });
        db
    }

    /// An empty table for what is read here.
    pub(crate) fn table(&self) -> Table {
        let columns: Vec<_> = self.counters.iter().map(Counter::columns).collect();
        Table::new(self.heading.clone(), &columns.concat())
    }

    /// The counters now, less what readings added to them.
    pub(crate) async fn read(&self) -> Vec<f64> {
        let earlier = f64::from(self.readings.fetch_add(1, Ordering::SeqCst));
        let counters = self.counters().await.into_iter().zip(&self.reading);
        counters
            .map(|(counter, reading)| counter - earlier * reading)
            .collect()
    }

    #[allow(clippy::cast_precision_loss)] // they are small
    async fn counters(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for counter in &self.counters {
            match counter {
                Counter::Statements => all.push(self.statements.load(Ordering::SeqCst) as f64),
                Counter::RoundTrips(proxy) => all.push(proxy.round_trips().await as f64),
                Counter::Server(_, query) => all.extend(numbers(&self.own, query).await),
                Counter::Size(_, path) => {
                    all.push(std::fs::metadata(path).map_or(0, |file| file.len()) as f64);
                }
            }
        }
        all
    }
}

impl Counter {
    fn columns(&self) -> &[&'static str] {
        match self {
            Self::Statements => &["statements"],
            Self::RoundTrips(_) => &["round trips"],
            Self::Server(columns, _) => columns,
            Self::Size(column, _) => std::slice::from_ref(column),
        }
    }
}

/// Which server, as precisely as figures depend on it.
async fn heading(db: &TestDb) -> String {
    match db.engine() {
        Engine::Postgres => {
            let version = db.number("SELECT current_setting('server_version_num')::bigint");
            format!("PostgreSQL ({})", version.await / 10_000)
        }
        Engine::MySql => {
            let version = db.texts("SELECT VERSION()").await.remove(0);
            let number: Vec<&str> = version.split(['.', '-']).take(2).collect();
            let name = match version.contains("MariaDB") {
                true => "MariaDB",
                false => "MySQL",
            };
            format!("MySQL ({name} {})", number.join("."))
        }
        Engine::Sqlite => "SQLite".to_owned(),
    }
}

/// A list of numbers in the only column of the only row.
async fn numbers(db: &DatabaseConnection, sql: &str) -> Vec<f64> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.expect(sql);
    let list: String = row.expect("a row").try_get_by_index(0).expect("a list");
    let list = list.trim_matches(['{', '}']).split(',');
    list.map(|number| number.parse().expect("a number"))
        .collect()
}
