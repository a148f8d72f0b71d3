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

/// Runs a test on a fresh database.
pub fn run<F>(engine: Engine, migrated: bool, case: F)
where
    F: for<'a> FnOnce(&'a TestDb) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
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

async fn connect(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(20).sqlx_logging(false);
    Database::connect(options).await
}

/// Runs a statement on the server itself.
async fn admin(engine: Engine, sql: &str) {
    let mut options = ConnectOptions::new(server_url(engine));
    options.max_connections(1).sqlx_logging(false);
    let server = Database::connect(options)
        .await
        .unwrap_or_else(|error| panic!("no {engine:?} server: {error}"));
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
