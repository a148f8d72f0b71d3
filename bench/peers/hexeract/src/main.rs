//! hexeract-outbox-sql.
//!
//! Settings, after its production checklist: a pool of workers that share the table
//! ("> 500 events/s: horizontal worker pool"), here 8, and a poll every 20 ms (the
//! lower end of what it gives for tight latency). It has batches of 100 and no pause
//! between cycles that found something (`min_cycle_delay`, which may be zero by its documentation).
//! The worker settles every message in a transaction of its own, so smaller batches
//! only add claims. The pool has a connection for each worker and producer and two
//! more, as its builder says. Several workers do not keep the order of a key.
//!
//! It has no way to publish many messages at once, and no vacuum: delivered rows stay. Messages have
//! no subject: the worker does not look at it, and its index would cost time.

use bench_harness::{Contestant, Error, Payload, Settings, Sink, Worker, run};
use hexeract_core::HandlerContext;
use hexeract_outbox::{
    Event, Handler, OutboxError, OutboxPublisher, OutboxWorker, OutboxWorkerConfig, TypedHandler,
};
use hexeract_outbox_sql::{PgOutboxPublisher, PgOutboxStore, postgres::ensure_schema};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const TABLE: &str = "bench_outbox";
const WORKERS: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Sent(Payload);

impl Event for Sent {
    const EVENT_TYPE: &'static str = "bench.sent";
}

struct Take(Arc<Sink>);

impl Handler<Sent> for Take {
    type Error = OutboxError;

    async fn handle(&self, event: Sent, _: &HandlerContext) -> Result<(), OutboxError> {
        self.0.take(&event.0);
        Ok(())
    }
}

struct Hexeract {
    pool: PgPool,
    publisher: PgOutboxPublisher,
}

#[async_trait::async_trait]
impl Contestant for Hexeract {
    const NAME: &'static str = "hexeract";
    const ORDERED: bool = false;

    async fn connect(settings: &Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections((settings.producers + WORKERS + 2) as u32)
            .connect(&settings.url)
            .await?;
        ensure_schema(&pool, TABLE).await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS bench_business (id bigint)")
            .execute(&pool)
            .await?;
        let publisher = PgOutboxPublisher::new(pool.clone(), TABLE)?;
        Ok(Self { pool, publisher })
    }

    async fn enqueue(&self, messages: Vec<(String, Payload)>) -> Result<(), Error> {
        let mut tx = self.pool.begin().await?;
        sqlx::query("INSERT INTO bench_business VALUES (1)")
            .execute(&mut *tx)
            .await?;
        for (_, payload) in messages {
            self.publisher
                .publish_in_tx(&mut tx, &Sent(payload))
                .await?;
        }
        tx.commit().await?;
        Ok(())
    }

    async fn work(&self, _: &Settings, sink: Arc<Sink>) -> Result<Worker, Error> {
        let cancel = CancellationToken::new();
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let store = PgOutboxStore::new(self.pool.clone(), TABLE)?;
            let handler = TypedHandler::<Sent, _>::new(Take(sink.clone()));
            let config = OutboxWorkerConfig {
                poll_interval: Duration::from_millis(20),
                batch_size: 100,
                min_cycle_delay: Duration::ZERO,
                ..OutboxWorkerConfig::default()
            };
            let handlers = HashMap::from([(Sent::EVENT_TYPE, Arc::new(handler) as _)]);
            let worker = OutboxWorker::new(store, handlers, config);
            workers.push(tokio::spawn(worker.run(cancel.clone())));
        }
        Ok(Worker::new(move || async move {
            cancel.cancel();
            for worker in workers {
                let _ = worker.await;
            }
        }))
    }

    async fn unsettled(&self) -> Result<u64, Error> {
        let sql = "SELECT COUNT(*) FROM bench_outbox WHERE delivered_at IS NULL";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run::<Hexeract>().await
}
