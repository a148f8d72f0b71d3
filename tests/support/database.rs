//! A database per test: created before it, dropped after it, also when it fails.

use futures_util::FutureExt;
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbErr};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::time::Duration;
use uuid::Uuid;

/// A database engine the outbox supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

/// A database that exists for one test.
pub struct TestDb {
    engine: Engine,
    name: String,
    url: String,
    connection: DatabaseConnection,
    // Holds the file of a SQLite database; removed with it.
    _directory: Option<tempfile::TempDir>,
}

impl TestDb {
    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Its connections: a pool of up to 20.
    pub fn connection(&self) -> &DatabaseConnection {
        &self.connection
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connections of their own, as another process would have.
    pub async fn connect(&self) -> DatabaseConnection {
        connect(&self.url).await.expect("the test's own database")
    }

    /// Runs SQL that is the same on every engine.
    pub async fn execute(&self, sql: &str) {
        self.connection
            .execute_unprepared(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The first column of the first row, as a number.
    pub async fn number(&self, sql: &str) -> i64 {
        let rows = self.column(sql).await;
        *rows.first().unwrap_or_else(|| panic!("{sql}: no rows"))
    }

    /// The first column of every row, as numbers.
    pub async fn column(&self, sql: &str) -> Vec<i64> {
        let backend = self.connection.get_database_backend();
        let statement = sea_orm::Statement::from_string(backend, sql);
        self.connection
            .query_all_raw(statement)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
            .iter()
            .map(|row| row.try_get_by_index(0).expect("a 64-bit number"))
            .collect()
    }

    /// The first column of every row, as text; NULL is empty.
    pub async fn texts(&self, sql: &str) -> Vec<String> {
        let backend = self.connection.get_database_backend();
        let statement = sea_orm::Statement::from_string(backend, sql);
        self.connection
            .query_all_raw(statement)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
            .iter()
            .map(|row| row.try_get_by_index::<Option<String>>(0).expect("a text"))
            .map(Option::unwrap_or_default)
            .collect()
    }

    /// A column's name as this engine wants it quoted.
    pub fn quoted(&self, column: &str) -> String {
        match self.engine {
            Engine::MySql => format!("`{column}`"),
            Engine::Postgres | Engine::Sqlite => format!("\"{column}\""),
        }
    }

    /// The database's clock and a bit (or less a bit), as an expression of the type that the
    /// outbox's tables have times in.
    pub fn from_now(&self, millis: i32) -> String {
        match self.engine {
            Engine::Postgres => format!("(clock_timestamp() + interval '{millis} milliseconds')"),
            Engine::MySql => format!("(UTC_TIMESTAMP(6) + INTERVAL {millis}000 MICROSECOND)"),
            Engine::Sqlite => {
                format!("(CAST(unixepoch('subsec') * 1000000 AS INTEGER) + {millis}000)")
            }
        }
    }

    /// Connections of their own whose transactions have this isolation unless they set another, as
    /// on a server that is configured so. Not for SQLite.
    pub async fn connect_with_isolation(&self, level: &'static str) -> DatabaseConnection {
        let mut options = ConnectOptions::new(&self.url);
        options.max_connections(20).sqlx_logging(false);
        match self.engine {
            Engine::Postgres => {
                self.execute(&format!(
                    "ALTER DATABASE {} SET default_transaction_isolation = '{}'",
                    self.name,
                    level.to_ascii_lowercase()
                ))
                .await;
            }
            Engine::MySql => {
                options.map_sqlx_mysql_pool_opts(move |pool| {
                    pool.after_connect(move |connection, _| {
                        Box::pin(async move {
                            let set = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
                            let set = sea_orm::sqlx::AssertSqlSafe(set);
                            sea_orm::sqlx::Executor::execute(connection, set).await?;
                            Ok(())
                        })
                    })
                });
            }
            Engine::Sqlite => unreachable!("SQLite is always serializable"),
        }
        Database::connect(options)
            .await
            .expect("the test's own database")
    }

    /// Ends every connection to the database, as an operator or a crash would.
    /// Not for SQLite.
    pub async fn end_connections(&self) {
        self.end_connections_if(|_| true)
            .await
            .expect("connections");
    }

    /// Ends about a third of the connections to the database; returns how many.
    /// Not for SQLite.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub async fn end_some_connections(&self) -> Result<u64, DbErr> {
        self.end_connections_if(|id| id % 3 == 0).await
    }

    async fn end_connections_if(&self, chosen: impl Fn(i64) -> bool) -> Result<u64, DbErr> {
        let own = connect(&self.url).await?;
        let backend = own.get_database_backend();
        let (list, end) = match self.engine {
            Engine::Postgres => (
                "SELECT pid::bigint FROM pg_stat_activity \
                 WHERE datname = current_database() AND pid <> pg_backend_pid()",
                "SELECT pg_terminate_backend",
            ),
            Engine::MySql => (
                "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND id <> CONNECTION_ID()",
                "KILL ",
            ),
            Engine::Sqlite => unreachable!("SQLite has no server"),
        };
        let statement = sea_orm::Statement::from_string(backend, list);
        let mut ended = 0;
        for row in own.query_all_raw(statement).await? {
            let id: i64 = row.try_get_by_index(0)?;
            // It may be gone already.
            if chosen(id)
                && own
                    .execute_unprepared(&format!("{end}({id})"))
                    .await
                    .is_ok()
            {
                ended += 1;
            }
        }
        own.close().await?;
        Ok(ended)
    }

    async fn create(engine: Engine) -> Self {
        let name = format!("outbox_test_{}", Uuid::new_v4().simple());
        let (url, directory) = match engine {
            Engine::Postgres | Engine::MySql => {
                admin(engine, &format!("CREATE DATABASE {name}")).await;
                (database_url(&server_url(engine), &name), None)
            }
            Engine::Sqlite => {
                let directory = tempfile::tempdir().expect("a temporary directory");
                let file = directory.path().join("test.db");
                (
                    format!("sqlite://{}?mode=rwc", file.display()),
                    Some(directory),
                )
            }
        };
        let connection = connect(&url).await.expect("the test's own database");
        if engine == Engine::Sqlite {
            connection
                .execute_unprepared("PRAGMA journal_mode = WAL")
                .await
                .expect("WAL mode");
        }
        Self {
            engine,
            name,
            url,
            connection,
            _directory: directory,
        }
    }

    async fn remove(self) {
        // The server ends what is left of the test's connections itself.
        let closing = self.connection.close();
        let _ = tokio::time::timeout(Duration::from_secs(5), closing).await;
        match self.engine {
            Engine::Postgres => {
                admin(
                    self.engine,
                    &format!("DROP DATABASE {} WITH (FORCE)", self.name),
                )
                .await;
            }
            Engine::MySql => admin(self.engine, &format!("DROP DATABASE {}", self.name)).await,
            Engine::Sqlite => {}
        }
    }
}

/// Runs a test in a new database on a server of its own.
pub fn run_at<F>(engine: Engine, url: &str, case: F)
where
    F: for<'a> FnOnce(&'a TestDb) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
{
    runtime().block_on(async {
        let name = "outbox_test".to_owned();
        on_server(url, &format!("CREATE DATABASE {name}")).await;
        let url = database_url(url, &name);
        let connection = connect(&url).await.expect("the test's own server");
        outbox::migrate(&connection).await.expect("migrate");
        let db = TestDb {
            engine,
            name,
            url,
            connection,
            _directory: None,
        };
        case(&db).await;
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Runs a test on a fresh database.
pub fn run<F>(engine: Engine, migrated: bool, case: F)
where
    F: for<'a> FnOnce(&'a TestDb) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
{
    runtime().block_on(async {
        let db = TestDb::create(engine).await;
        let outcome = AssertUnwindSafe(async {
            if migrated {
                outbox::migrate(db.connection()).await.expect("migrate");
            }
            case(&db).await;
        })
        .catch_unwind()
        .await;
        db.remove().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

/// Runs a test on two fresh databases of one server, each with the outbox tables.
pub fn run_two<F>(engine: Engine, case: F)
where
    F: for<'a> FnOnce(&'a TestDb, &'a TestDb) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
{
    runtime().block_on(async {
        let (one, other) = (TestDb::create(engine).await, TestDb::create(engine).await);
        let outcome = AssertUnwindSafe(async {
            for db in [&one, &other] {
                outbox::migrate(db.connection()).await.expect("migrate");
            }
            case(&one, &other).await;
        })
        .catch_unwind()
        .await;
        one.remove().await;
        other.remove().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

async fn connect(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(20)
        .sqlx_logging(false)
        // SQLite lets writers wait in no particular order: many of them, on a
        // busy machine, need patience.
        .map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::from_secs(60)));
    Database::connect(options).await
}

/// Runs a statement on the server itself.
async fn admin(engine: Engine, sql: &str) {
    on_server(&server_url(engine), sql).await;
}

async fn on_server(url: &str, sql: &str) {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    let server = Database::connect(options).await;
    let server = server.unwrap_or_else(|error| panic!("no server: {error}"));
    let done = server.execute_unprepared(sql).await;
    done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    server.close().await.expect("close");
}

fn server_url(engine: Engine) -> String {
    let variable = match engine {
        Engine::Postgres => "OUTBOX_TEST_POSTGRES_URL",
        Engine::MySql => "OUTBOX_TEST_MYSQL_URL",
        Engine::Sqlite => unreachable!("SQLite has no server"),
    };
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} is not set: run scripts/test, which starts the servers, or set it")
    })
}

/// The same server and parameters, another database.
fn database_url(server: &str, name: &str) -> String {
    let (address, parameters) = match server.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (server, String::new()),
    };
    let (host, _) = address.rsplit_once('/').expect("a URL with a database");
    format!("{host}/{name}{parameters}")
}
