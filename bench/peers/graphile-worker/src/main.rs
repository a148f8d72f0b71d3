//! graphile_worker.
//!
//! Settings: 16 jobs at once and a poll every 500 ms beside LISTEN and NOTIFY, as in its
//! guide's "throughput-oriented worker". For a drain, and with
//! `profile=high_throughput`, it also has the rest of that: completions in batches of 5 ms and
//! a local queue of 100. Otherwise it has no local queue: its guide says that a local queue trades
//! latency for throughput. With one, an idle worker also asks the database all the time.
//!
//! Jobs stay in the local queue for a second, not the guide's minute. Now and then
//! this version does not run what it has fetched until that time is over.
//!
//! Jobs have no queue name, so they run at once and the order of a key is not kept. A
//! queue per key would keep it, but then a batch takes one job of a key at a time.
//! Finished jobs are deleted.

use bench_harness::{Contestant, Error, Payload, Settings, Sink, Worker, run};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Sent(Payload);

impl TaskHandler for Sent {
    const IDENTIFIER: &'static str = "sent";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        let sink = ctx.get_ext::<Target>().ok_or("no sink")?;
        sink.0.take(&self.0);
        Ok::<(), &str>(())
    }
}

/// Where handlers find the sink.
#[derive(Clone)]
struct Target(Arc<Sink>);

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Target")
    }
}

struct Graphile {
    pool: PgPool,
    /// Knows the task, so that `add_jobs` does not look it up.
    utils: WorkerUtils,
}

#[async_trait::async_trait]
impl Contestant for Graphile {
    const NAME: &'static str = "graphile_worker";
    const ORDERED: bool = false;

    async fn connect(settings: &Settings) -> Result<Self, Error> {
        let pool = PgPoolOptions::new()
            .max_connections(settings.producers as u32 + 20)
            .connect(&settings.url)
            .await?;
        sqlx::query("CREATE TABLE IF NOT EXISTS bench_business (id bigint)")
            .execute(&pool)
            .await?;
        let worker = WorkerOptions::default()
            .pg_pool(pool.clone())
            .define_job::<Sent>()
            .init()
            .await?;
        let utils = worker.create_utils();
        Ok(Self { pool, utils })
    }

    async fn enqueue(&self, messages: Vec<(String, Payload)>) -> Result<(), Error> {
        let mut tx = self.pool.begin().await?;
        sqlx::query("INSERT INTO bench_business VALUES (1)")
            .execute(&mut *tx)
            .await?;
        let mut utils = self.utils.clone().with_executor(&mut tx);
        let spec = JobSpec::default();
        let mut jobs: Vec<_> = messages
            .into_iter()
            .map(|(_, payload)| (Sent(payload), &spec))
            .collect();
        match (jobs.pop(), jobs.is_empty()) {
            (Some((job, _)), true) => drop(utils.add_job(job, JobSpec::default()).await?),
            (last, _) => {
                jobs.extend(last);
                utils.add_jobs(&jobs).await?;
            }
        }
        tx.commit().await?;
        Ok(())
    }

    async fn work(&self, settings: &Settings, sink: Arc<Sink>) -> Result<Worker, Error> {
        let options = WorkerOptions::default()
            .pg_pool(self.pool.clone())
            .listen_os_shutdown_signals(false)
            .add_extension(Target(sink))
            .define_job::<Sent>();
        let local = match &*settings.profile {
            "high_throughput" => true,
            "low_latency" => false,
            _ => ["drain", "whole"].contains(&&*settings.workload),
        };
        let mut options = options
            .concurrency(16)
            .poll_interval(Duration::from_millis(500));
        if local {
            let queue = LocalQueueConfig::default().with_size(100);
            options = options
                .complete_job_batch_delay(Duration::from_millis(5))
                .fail_job_batch_delay(Duration::from_millis(5))
                .local_queue(queue.with_ttl(Duration::from_secs(1)));
        }
        let worker = Arc::new(options.init().await?);
        let running = worker.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                eprintln!("graphile_worker: {error}");
            }
        });
        Ok(Worker::new(move || async move {
            worker.request_shutdown();
            let _ = task.await;
        }))
    }

    async fn unsettled(&self) -> Result<u64, Error> {
        let sql = "SELECT COUNT(*) FROM graphile_worker._private_jobs";
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(count.unsigned_abs())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    run::<Graphile>().await
}
