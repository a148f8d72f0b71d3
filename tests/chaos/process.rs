//! A process of the run: a producer, a worker, or both in one on SQLite.
//!
//! It is this binary again, told by the run what to be. It ends in order at SIGTERM,
//! and when its standard input ends, so that none outlives the run.

use crate::journal::Journal;
use crate::{producer, worker};
use outbox_runtime::sabotage::{self, Sabotage};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The connections of a process, at most.
pub(crate) const POOL: u32 = 10;

/// What a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Producer,
    Worker,
    Both,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Both => "both",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let all = [Self::Producer, Self::Worker, Self::Both];
        all.into_iter().find(|role| role.name() == name)
    }
}

/// The names of ways to break a worker.
pub(crate) fn parse_sabotage(name: &str) -> Option<Sabotage> {
    match name {
        "ack-first" => Some(Sabotage::AckFirst),
        "ignore-lease" => Some(Sabotage::IgnoreLease),
        "skip-late" => Some(Sabotage::SkipLate),
        _ => None,
    }
}

/// What a process is told: `ROLE URL DIRECTORY [SABOTAGE]`.
pub(crate) struct Arguments {
    pub(crate) role: Role,
    pub(crate) url: String,
    pub(crate) directory: PathBuf,
    pub(crate) sabotage: Option<String>,
}

impl Arguments {
    pub(crate) fn to_arguments(&self) -> Vec<String> {
        let directory = self.directory.display().to_string();
        let mut arguments = vec![self.role.name().to_owned(), self.url.clone(), directory];
        arguments.extend(self.sabotage.clone());
        arguments
    }

    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let [role, url, directory, rest @ ..] = arguments else {
            return None;
        };
        Some(Self {
            role: Role::parse(role)?,
            url: url.clone(),
            directory: directory.into(),
            sabotage: rest.first().cloned(),
        })
    }
}

/// Told when the process is to end.
pub(crate) type Ending = watch::Receiver<bool>;

pub(crate) async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    if let Some(name) = &arguments.sabotage {
        sabotage::commit(parse_sabotage(name).ok_or("no such sabotage")?);
    }
    let ending = ending();
    let journal = Journal::open(&arguments.directory)?;
    let db = connect(&arguments.url).await?;
    let producing = async {
        if arguments.role != Role::Worker {
            producer::run(&db, &journal, ending.clone()).await;
        }
        Ok(())
    };
    let working = async {
        if arguments.role != Role::Producer {
            worker::run(&db, &journal, ending.clone()).await?;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    tokio::try_join!(producing, working)?;
    // Waits for every connection: one that was lost keeps the process from ending, which
    // the run finds.
    eprintln!("everything is done, the pool is closed");
    db.close().await?;
    Ok(())
}

fn ending() -> Ending {
    let (tell, told) = watch::channel(false);
    let tell = Arc::new(tell);
    let orphaned = tell.clone();
    // A thread of its own: nothing waits for a read that never ends.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = orphaned.send(true);
    });
    tokio::spawn(async move {
        let mut term = signal(SignalKind::terminate()).expect("a signal handler");
        term.recv().await;
        let _ = tell.send(true);
    });
    told
}

/// Connections that say which process they belong to; see `lease_watch`.
async fn connect(url: &str) -> Result<DatabaseConnection, DbErr> {
    let process = std::process::id();
    let url = match url.starts_with("postgres") {
        true if url.contains('?') => format!("{url}&application_name={process}"),
        true => format!("{url}?application_name={process}"),
        false => url.to_owned(),
    };
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(POOL)
        .acquire_timeout(Duration::from_secs(10))
        .sqlx_logging(false)
        .map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::from_secs(60)))
        .map_sqlx_mysql_pool_opts(move |pool| {
            pool.after_connect(move |connection, _| {
                Box::pin(async move {
                    let set = format!("SET @chaos_process = '{process}'");
                    let set = sea_orm::sqlx::AssertSqlSafe(set);
                    sea_orm::sqlx::Executor::execute(connection, set).await?;
                    Ok(())
                })
            })
        });
    Database::connect(options).await
}

/// A statement of the run's own, with values.
pub(crate) fn statement<const N: usize>(
    conn: &impl ConnectionTrait,
    sql: &str,
    values: [sea_orm::Value; N],
) -> sea_orm::Statement {
    let backend = conn.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => numbered(sql),
        _ => sql.to_owned(),
    };
    sea_orm::Statement::from_sql_and_values(backend, sql, values)
}

/// `?` as PostgreSQL wants them: `$1`, `$2` ...
fn numbered(sql: &str) -> String {
    let mut parts = sql.split('?');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for (i, part) in parts.enumerate() {
        text.push_str(&format!("${}{part}", i + 1));
    }
    text
}
