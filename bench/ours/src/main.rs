//! This crate as a contestant.

use bench_harness::{Contestant, Error, Payload, Settings, Sink, Worker, run};
use outbox::prelude::*;
use outbox::{OutboxBuilder, OutboxHandle};
use sea_orm::sqlx::sqlite::SqliteJournalMode;
use sea_orm::{ConnectOptions, Database, Statement};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// One event for each number of partitions there is a workload for.
macro_rules! events {
    ($($module:ident $queue:literal $partitions:literal;)*) => {$(
        mod $module {
            use super::{Payload, Sink};
            use outbox::prelude::*;
            use std::sync::Arc;

            #[outbox_event(queue = $queue, partitions = $partitions, name = "sent")]
            #[derive(Serialize, Deserialize)]
            #[serde(transparent)]
            pub struct Sent(pub Payload);

            #[outbox_handler(mode = leased)]
            pub async fn leased(event: Sent, State(sink): State<Arc<Sink>>) {
                sink.take(&event.0);
            }

            #[outbox_handler(mode = transactional)]
            pub async fn transactional(
                event: Sent,
                _tx: &DatabaseTransaction,
                State(sink): State<Arc<Sink>>,
            ) {
                sink.take(&event.0);
            }

            pub fn handlers(mode: &str) -> Vec<outbox::HandlerRegistration> {
                match mode {
                    "transactional" => outbox::handlers![transactional].to_vec(),
                    _ => outbox::handlers![leased].to_vec(),
                }
            }
        }
    )*};
}

events! {
    one "bench-1" 1;
    four "bench-4" 4;
    sixteen "bench-16" 16;
    sixty_four "bench-64" 64;
}

macro_rules! by_partitions {
    ($partitions:expr, $module:ident => $work:expr) => {
        match $partitions {
            1 => {
                use one as $module;
                $work
            }
            4 => {
                use four as $module;
                $work
            }
            16 => {
                use sixteen as $module;
                $work
            }
            _ => {
                use sixty_four as $module;
                $work
            }
        }
    };
}

struct Ours {
    db: DatabaseConnection,
    partitions: u32,
    /// Begins transactions that wake the workers after their commit.
    waking: OnceLock<Outbox>,
    /// In a process that only produces, tells other processes of what is enqueued.
    _notifier: Option<OutboxHandle>,
}

impl Ours {
    async fn write<C: ConnectionTrait>(
        &self,
        tx: &C,
        messages: Vec<(String, Payload)>,
    ) -> Result<(), Error> {
        // Prepared, as the others' is.
        let business = "INSERT INTO bench_business VALUES (1)";
        tx.execute_raw(Statement::from_string(tx.get_database_backend(), business))
            .await?;
        by_partitions!(self.partitions, module => {
            let mut events = messages
                .into_iter()
                .map(|(key, payload)| (key, module::Sent(payload)));
            match (events.next(), events.len()) {
                (Some((key, event)), 0) => drop(event.enqueue(tx, key).await?),
                (first, _) => {
                    drop(module::Sent::enqueue_all(tx, first.into_iter().chain(events)).await?);
                }
            }
        });
        Ok(())
    }
}

#[async_trait::async_trait]
impl Contestant for Ours {
    const NAME: &'static str = "outbox";
    const ORDERED: bool = true;

    async fn connect(settings: &Settings) -> Result<Self, Error> {
        let mut options = ConnectOptions::new(&settings.url);
        options
            .max_connections(settings.producers as u32 + 6)
            .sqlx_logging(false)
            .map_sqlx_sqlite_opts(|sqlite| {
                sqlite
                    .journal_mode(SqliteJournalMode::Wal)
                    .busy_timeout(Duration::from_secs(30))
            });
        let db = Database::connect(options).await?;
        outbox::migrate(&db).await?;
        db.execute_unprepared("CREATE TABLE IF NOT EXISTS bench_business (id bigint)")
            .await?;
        let notifier = match settings.workload == "produce" && settings.notify {
            true => {
                let builder = Outbox::builder(db.clone()).without_discovery();
                Some(builder.notify().start().await?)
            }
            false => None,
        };
        Ok(Self {
            db,
            partitions: settings.partitions,
            waking: OnceLock::new(),
            _notifier: notifier,
        })
    }

    async fn enqueue(&self, messages: Vec<(String, Payload)>) -> Result<(), Error> {
        if let Some(outbox) = self.waking.get() {
            let tx = outbox.begin().await?;
            self.write(&tx, messages).await?;
            return Ok(tx.commit().await?);
        }
        let tx = self.db.begin().await?;
        self.write(&tx, messages).await?;
        Ok(tx.commit().await?)
    }

    async fn work(&self, settings: &Settings, sink: Arc<Sink>) -> Result<Worker, Error> {
        let handlers = by_partitions!(self.partitions, module => module::handlers(&settings.mode));
        let profile = match &*settings.profile {
            "low_latency" => OutboxProfile::low_latency(),
            "high_throughput" => OutboxProfile::high_throughput(),
            "relaxed" => OutboxProfile::relaxed(),
            _ => OutboxProfile::default(),
        };
        let mut builder: OutboxBuilder = Outbox::builder(self.db.clone())
            .profile(profile)
            .without_discovery()
            .handlers(handlers)
            .state(sink);
        if settings.notify {
            builder = builder.notify();
        }
        let running: OutboxHandle = builder.start().await?;
        if settings.wakes {
            let _ = self.waking.set(running.outbox().clone());
        }
        Ok(Worker::new(|| async {
            running.stop().await;
        }))
    }

    async fn unsettled(&self) -> Result<u64, Error> {
        // Only whether there is any: counting them all would take time from the workers.
        let sql = "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM outbox_incoming LIMIT 1) AS i) \
            + (SELECT COUNT(*) FROM (SELECT 1 FROM outbox_body LIMIT 1) AS b)";
        let backend = self.db.get_database_backend();
        let row = self
            .db
            .query_one_raw(Statement::from_string(backend, sql))
            .await?;
        let rows: i64 = row.ok_or("no row")?.try_get_by_index(0)?;
        Ok(rows.unsigned_abs())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run::<Ours>().await
}
