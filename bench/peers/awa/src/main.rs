//! awa.
//!
//! Settings: its default engine (queue storage), and what its documentation gives for a
//! hot queue.
//!
//! - A partitioned queue, routed by key, of as many partitions as the workload says.
//! - No deadline, which lets it claim and complete in compact batches.
//! - A poll every 50 ms beside LISTEN and NOTIFY, as in its benchmarks. The partitions share
//!   the workers of those benchmarks (100).
//! - Four connections a queue and twenty more, as it advises, but at most 60, because a server
//!   takes 100.
//!
//! A partition claims in order, but its workers run at once, so the order of a key is
//! not kept. `unsettled` counts jobs that are not in a final state. Finished jobs stay until
//! awa rotates them out; the benchmark does not wait for that.

use awa::{
    AwaError, Client, InsertOpts, JobArgs, JobResult, PartitionedQueue, QueueConfig, QueueStorage,
    QueueStorageConfig, insert_many, insert_with, migrations,
};
use bench_harness::{Contestant, Error, Payload, Settings, Sink, Worker, run};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

const WORKERS: u32 = 100;

/// Jobs that are claimed and not closed. awa's own exact count says the same, but takes seconds.
/// Its fast count leaves these out.
const CLAIMED: &str = "SELECT \
    (SELECT COALESCE(SUM(cardinality(job_ids)), 0) FROM awa.lease_claim_batches) \
    - (SELECT COALESCE(SUM(upper(r) - lower(r)), 0) \
       FROM awa.lease_claim_closure_batches, unnest(receipt_ranges) r)::bigint \
    - (SELECT COUNT(*) FROM awa.lease_claim_closures)";

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Sent(Payload);

impl JobArgs for Sent {
    fn kind() -> &'static str {
        "sent"
    }
}

struct Awa {
    pool: PgPool,
    queue: PartitionedQueue,
    storage: QueueStorage,
}

impl Awa {
    fn options(&self, key: &str) -> InsertOpts {
        self.queue.route_opts_by_key(InsertOpts::default(), key)
    }
}

async fn migrate(pool: &PgPool, storage: &QueueStorage) -> Result<(), AwaError> {
    migrations::run(pool).await?;
    // A worker's first start would choose this engine, but producers may come before.
    if QueueStorage::active_schema(pool).await?.is_none() {
        storage.install(pool).await?;
    }
    Ok(())
}

#[async_trait::async_trait]
impl Contestant for Awa {
    const NAME: &'static str = "awa";
    const ORDERED: bool = false;

    async fn connect(settings: &Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections((settings.producers as u32 + settings.partitions * 4 + 20).min(60))
            .connect(&settings.url)
            .await?;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        // The compiler does not accept that their migrations are `Send`.
        block_in_place(|| Handle::current().block_on(migrate(&pool, &storage)))?;
        sqlx::query("CREATE TABLE IF NOT EXISTS bench_business (id bigint)")
            .execute(&pool)
            .await?;
        let queue = PartitionedQueue::new("bench", settings.partitions as usize)?;
        Ok(Self {
            pool,
            queue,
            storage,
        })
    }

    async fn enqueue(&self, mut messages: Vec<(String, Payload)>) -> Result<(), Error> {
        // Every transaction takes the queues in the same order. Otherwise transactions deadlock.
        messages.sort_by(|(one, _), (other, _)| {
            let queue = |key| self.queue.queue_for_key(key);
            queue(one).cmp(queue(other))
        });
        let mut tx = self.pool.begin().await?;
        sqlx::query("INSERT INTO bench_business VALUES (1)")
            .execute(&mut *tx)
            .await?;
        if messages.len() == 1 {
            for (key, payload) in messages {
                insert_with(&mut *tx, &Sent(payload), self.options(&key)).await?;
            }
        } else {
            let jobs: Result<Vec<_>, _> = messages
                .into_iter()
                .map(|(key, payload)| {
                    awa::model::insert::params_with(&Sent(payload), self.options(&key))
                })
                .collect();
            insert_many(&mut *tx, &jobs?).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    async fn work(&self, settings: &Settings, sink: Arc<Sink>) -> Result<Worker, Error> {
        let config = QueueConfig {
            max_workers: WORKERS.div_ceil(settings.partitions),
            poll_interval: Duration::from_millis(50),
            deadline_duration: Duration::ZERO,
            ..QueueConfig::default()
        };
        let client = Client::builder(self.pool.clone())
            .partitioned_queue(&self.queue, config)
            .register::<Sent, _, _>(move |sent, _| {
                let sink = sink.clone();
                async move {
                    sink.take(&sent.0);
                    Ok(JobResult::Completed)
                }
            })
            .build()?;
        client.start().await?;
        Ok(Worker::new(move || async move {
            client.shutdown(Duration::from_secs(10)).await;
        }))
    }

    async fn unsettled(&self) -> Result<u64, Error> {
        let mut left = 0;
        for queue in self.queue.physical_queues() {
            let counts = self.storage.queue_counts_fast(&self.pool, queue).await?;
            left += counts.available + counts.running;
        }
        let claimed: i64 = sqlx::query_scalar(CLAIMED).fetch_one(&self.pool).await?;
        Ok(left.max(0).unsigned_abs() + claimed.max(0).unsigned_abs())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run::<Awa>().await
}
