//! cf-modkit-db, feature `preview-outbox`.
//!
//! Settings: the profile that the workload names, high_throughput or low_latency, or its
//! default. Otherwise it has what its own benchmark uses: 8 processors, 2 + 1 sequencers and
//! a pool by its connection budget (those, one vacuum, one reconciler, the producers
//! and ten more). Commits go through `Outbox::transaction`, which wakes the sequencers.
//! A key's partition is its number modulo the partitions: hashing is left to the user.
//!
//! `unsettled` counts what is not yet processed: in the incoming table, and between a
//! partition's sequence and its processor's cursor. Processed rows stay until its
//! vacuum deletes them, at the start and then once an hour; the benchmark does not wait for that.
//! Only where the whole life of a message is measured, the vacuum runs every second, by the
//! option that its documentation names. Then everything is settled when its rows are gone.

use bench_harness::{Contestant, Error, Payload, Settings, Sink, Worker, run};
use modkit_db::migration_runner::run_migrations_for_testing;
use modkit_db::outbox::{
    EnqueueMessage, HandlerResult, LeasedMessageHandler, MessageResult, Outbox, OutboxMessage,
    OutboxProfile, Partitions, TransactionalMessageHandler, WorkerTuning, outbox_migrations,
};
use modkit_db::secure::{AccessScope, secure_insert};
use modkit_db::{ConnectOpts, Db, connect_db};
use sea_orm::{
    ActiveValue::Set, ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend,
    DbErr, Statement,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::OnceCell;

const QUEUE: &str = "bench";
const TYPE: &str = "application/json";
const PROCESSORS: usize = 8;

/// The business table: their transactions take entities only.
mod business {
    use modkit_db::secure::Scopable;
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, Scopable)]
    #[sea_orm(table_name = "bench_business")]
    #[secure(unrestricted)]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

struct Take(Arc<Sink>);

impl Take {
    fn take(&self, message: &OutboxMessage) -> Result<(), String> {
        let payload = serde_json::from_slice(&message.payload);
        self.0.take(&payload.map_err(|error| error.to_string())?);
        Ok(())
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Take {
    async fn handle(&self, message: &OutboxMessage) -> MessageResult {
        match self.take(message) {
            Ok(()) => MessageResult::Ok,
            Err(reason) => MessageResult::Reject(reason),
        }
    }
}

struct TakeInTransaction(Take);

#[async_trait::async_trait]
impl TransactionalMessageHandler for TakeInTransaction {
    async fn handle(&self, _: &dyn ConnectionTrait, message: &OutboxMessage) -> HandlerResult {
        match self.0.take(message) {
            Ok(()) => HandlerResult::Success,
            Err(reason) => HandlerResult::Reject { reason },
        }
    }
}

struct Modkit {
    db: Db,
    url: String,
    /// For counting: their connections take no raw SQL.
    plain: OnceCell<DatabaseConnection>,
    outbox: OnceLock<Arc<Outbox>>,
    partitions: u32,
    /// Whether its vacuum works within the run, and the run waits for it. By default it rests for
    /// an hour, and the rows stay that long.
    to_the_end: bool,
}

#[async_trait::async_trait]
impl Contestant for Modkit {
    const NAME: &'static str = "cf-modkit-db";
    const ORDERED: bool = true;

    async fn connect(settings: &Settings) -> Result<Self, Error> {
        let options = ConnectOpts {
            max_conns: Some((settings.producers + PROCESSORS + 5 + 10) as u32),
            ..ConnectOpts::default()
        };
        let db = connect_db(&settings.url, options).await?;
        let plain = plain(&settings.url).await?;
        let table = "CREATE TABLE IF NOT EXISTS bench_business (id bigint)";
        plain.execute_unprepared(table).await?;
        plain.close().await?;
        run_migrations_for_testing(&db, outbox_migrations()).await?;
        let contestant = Self {
            db,
            url: settings.url.clone(),
            plain: OnceCell::new(),
            outbox: OnceLock::new(),
            partitions: settings.partitions,
            to_the_end: settings.workload == "whole",
        };
        if ["enqueue", "fill", "produce", "whole"].contains(&&*settings.workload) {
            contestant.produce_only().await?;
        }
        Ok(contestant)
    }

    async fn enqueue(&self, messages: Vec<(String, Payload)>) -> Result<(), Error> {
        let outbox = self.outbox.get().ok_or("no outbox")?.clone();
        let partition = |payload: &Payload| payload.key % self.partitions;
        let mut batch = Vec::with_capacity(messages.len());
        for (_, payload) in messages {
            batch.push(EnqueueMessage {
                partition: partition(&payload),
                payload: serde_json::to_vec(&payload)?,
                payload_type: TYPE,
            });
        }
        let sent = outbox.clone();
        let (_, done) = outbox
            .transaction(self.db.clone(), |tx| {
                Box::pin(async move {
                    let row = business::ActiveModel { id: Set(1) };
                    let scope = AccessScope::default();
                    secure_insert::<business::Entity>(row, &scope, tx).await?;
                    match batch.pop() {
                        Some(one) if batch.is_empty() => {
                            sent.enqueue(tx, QUEUE, one.partition, one.payload, TYPE)
                                .await?;
                        }
                        last => {
                            batch.extend(last);
                            sent.enqueue_batch(tx, QUEUE, &batch).await?;
                        }
                    }
                    Ok(())
                })
            })
            .await;
        Ok(done?)
    }

    async fn work(&self, settings: &Settings, sink: Arc<Sink>) -> Result<Worker, Error> {
        let profile = match &*settings.profile {
            "low_latency" => OutboxProfile::low_latency(),
            "high_throughput" => OutboxProfile::high_throughput(),
            _ => OutboxProfile::default(),
        };
        let mut builder = Outbox::builder(self.db.clone())
            .profile(profile)
            .processors(PROCESSORS);
        if self.to_the_end {
            let often = WorkerTuning::vacuum().idle_interval(Duration::from_secs(1));
            builder = builder.vacuum_tuning(often);
        }
        let queue = builder.queue(QUEUE, Partitions::of(settings.partitions as u16));
        let handle = match &*settings.mode {
            "transactional" => queue.transactional(TakeInTransaction(Take(sink))),
            _ => queue.leased(Take(sink)).done(),
        };
        let handle = handle.start().await?;
        let _ = self.outbox.set(handle.outbox().clone());
        Ok(Worker::new(|| handle.stop()))
    }

    async fn unsettled(&self) -> Result<u64, Error> {
        let sql = "SELECT (SELECT COUNT(*) FROM modkit_outbox_incoming) \
            + (SELECT COALESCE(SUM(t.sequence - p.processed_seq), 0)::bigint \
               FROM modkit_outbox_partitions t JOIN modkit_outbox_processor p \
               ON p.partition_id = t.id)";
        let left = "SELECT COUNT(*) FROM modkit_outbox_body";
        let sql = if self.to_the_end { left } else { sql };
        let plain = self.plain.get_or_try_init(|| plain(&self.url)).await?;
        let row = plain.query_one(Statement::from_string(DbBackend::Postgres, sql));
        let count: i64 = row.await?.ok_or("no row")?.try_get_by_index(0)?;
        Ok(count.unsigned_abs())
    }
}

async fn plain(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await
}

impl Modkit {
    /// An outbox that only enqueues. It always starts sequencers, so they are
    /// stopped here. Otherwise they would do a part of the work in this process, and the processors
    /// of another process would not be told.
    async fn produce_only(&self) -> Result<(), Error> {
        let handle = Outbox::builder(self.db.clone()).start().await?;
        let outbox = handle.outbox().clone();
        handle.stop().await;
        outbox
            .register_queue(&self.db, QUEUE, self.partitions as u16)
            .await?;
        let _ = self.outbox.set(outbox);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run::<Modkit>().await
}
