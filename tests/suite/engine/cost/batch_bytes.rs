//! What is claimed at once is bounded by bytes, not by a count alone.

use super::*;
use crate::engine::support::worker_process::{Worker, create_delivery, deliveries};
use outbox_runtime::{Batch, LeasedHandler, TransactionalHandler, WorkerTuning};
use outbox_tests::{Engine, engines, every_engine};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, Statement,
};
use std::sync::atomic::{AtomicI64, Ordering};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A message of a key, padded to so many bytes; the worker writes down what comes before
/// the first space.
fn padded(key: &str, n: usize, bytes: usize) -> NewMessage {
    let mut text = format!("{key}:{n} ");
    text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len())));
    NewMessage::new("step", key.to_owned(), text).max_payload(2 * MIB)
}

/// Remembers the sizes of the batches it is given, each as its messages' sizes.
#[derive(Clone, Default)]
struct Sizes(Arc<Mutex<Vec<Vec<usize>>>>);

impl Sizes {
    fn take(&self, batch: &mut Batch<'_>) -> HandlerResult {
        let messages = batch.next_chunk(usize::MAX);
        let sizes = messages.iter().map(|message| message.payload().len());
        self.0.lock().unwrap().push(sizes.collect());
        HandlerResult::Success
    }

    fn messages(&self) -> usize {
        self.0.lock().unwrap().iter().map(Vec::len).sum()
    }
}

#[async_trait::async_trait]
impl LeasedHandler for Sizes {
    async fn handle(&self, batch: &mut Batch<'_>, _: &Ctx) -> HandlerResult {
        self.take(batch)
    }
}

#[async_trait::async_trait]
impl TransactionalHandler for Sizes {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        _: &Ctx,
    ) -> HandlerResult {
        self.take(batch)
    }
}

fn processor(batch_bytes: usize) -> WorkerTuning {
    let tuning = outbox_runtime::OutboxProfile::default().processor;
    tuning.batch_bytes(batch_bytes)
}

/// A pool of one connection, and what that has cost so far: bytes that MySQL sent, steps that
/// SQLite made.
struct Metered {
    pool: DatabaseConnection,
    steps: Arc<AtomicI64>,
}

impl Metered {
    async fn connect(db: &TestDb) -> Self {
        let mut options = ConnectOptions::new(db.url());
        options.max_connections(1).sqlx_logging(false);
        let steps = Arc::new(AtomicI64::new(0));
        let counted = steps.clone();
        options.map_sqlx_sqlite_pool_opts(move |pool| {
            let counted = counted.clone();
            pool.after_connect(move |connection, _| {
                let counted = counted.clone();
                Box::pin(async move {
                    let mut handle = connection.lock_handle().await?;
                    handle.set_progress_handler(1, move || {
                        counted.fetch_add(1, Ordering::Relaxed);
                        true
                    });
                    Ok(())
                })
            })
        });
        let pool = Database::connect(options).await.unwrap();
        Self { pool, steps }
    }

    async fn cost(&self, engine: Engine) -> i64 {
        if engine == Engine::Sqlite {
            return self.steps.load(Ordering::Relaxed);
        }
        let show = "SHOW SESSION STATUS LIKE 'Bytes_sent'";
        let statement = Statement::from_string(self.pool.get_database_backend(), show);
        let row = self.pool.query_one_raw(statement).await.unwrap().unwrap();
        let count: String = row.try_get_by_index(1).unwrap();
        count.parse().unwrap()
    }
}

/// What 200 messages cost in batches of so many bytes.
async fn cost(db: &TestDb, key: &str, batch_bytes: usize) -> i64 {
    const EACH: usize = 200;
    let metered = Metered::connect(db).await;
    let seen = Sizes::default();
    let running = outbox_runtime::Outbox::builder(metered.pool.clone())
        .processor_tuning(processor(batch_bytes))
        .queue(key, Partitions::of(1))
        .batch(100)
        .transactional_batch(seen.clone())
        .start()
        .await
        .unwrap();
    let queue = Queue::try_of(key.to_owned(), Partitions::of(1)).unwrap();
    let messages = (0..EACH).map(|n| padded(key, n, 4 * KIB));
    outbox::enqueue_batch(db.connection(), &queue, messages)
        .await
        .unwrap();
    eventually("all of them", async || seen.messages() == EACH).await;
    running.stop().await;
    metered.cost(db.engine()).await
}

/// PostgreSQL adds the bytes up in the statement.
#[engines(mysql, sqlite)]
async fn messages_beyond_the_bytes_of_a_batch_are_not_read_for_each_batch(db: &TestDb) {
    let whole = cost(db, "whole", MIB).await;
    let single = cost(db, "single", 1).await;
    // Each claim reads two to take one; all of a batch would be forty times as much.
    assert!(
        single < 8 * whole,
        "{whole} in two batches, {single} one by one"
    );
}

#[every_engine]
async fn a_batch_ends_with_the_message_that_reaches_its_bytes(db: &TestDb) {
    // Small ones, large ones, one that is larger than a batch, and small ones again.
    let sizes = [[10; 20], [40 * KIB; 20], [300 * KIB; 20], [10; 20]].concat();
    let messages = sizes
        .iter()
        .enumerate()
        .map(|(n, size)| padded("k", n, *size));
    outbox::enqueue_batch(db.connection(), &QUEUE, messages)
        .await
        .unwrap();
    let (leased, transactional) = (Sizes::default(), Sizes::default());
    let running = outbox_runtime::Outbox::builder(db.connection().clone())
        .processor_tuning(processor(128 * KIB))
        .queue("orders", QUEUE.partitions())
        .leased_batch(leased.clone())
        .queue("orders", QUEUE.partitions())
        .consumer("transactional")
        .transactional_batch(transactional.clone())
        .start()
        .await
        .unwrap();
    eventually("all of them", async || {
        leased.messages() + transactional.messages() >= 2 * sizes.len()
    })
    .await;
    drained(db).await;
    running.stop().await;
    for seen in [leased, transactional] {
        let batches = seen.0.lock().unwrap().clone();
        for batch in &batches {
            let before_the_last: usize = batch[..batch.len() - 1].iter().sum();
            assert!(before_the_last < 128 * KIB, "{batches:?}");
        }
        let all: Vec<usize> = batches
            .concat()
            .iter()
            .map(|size| *size / 10 * 10)
            .collect();
        assert_eq!(
            all,
            sizes.iter().map(|size| *size / 10 * 10).collect::<Vec<_>>()
        );
        // Four of 40 KiB, one of 300; then they grow again.
        assert!(batches.len() <= 1 + 6 + 20 + 5, "{} batches", batches.len());
    }
}

#[every_engine]
async fn the_memory_of_a_process_is_bounded_by_bytes(db: &TestDb) {
    const EACH: usize = 60;
    create_delivery(db).await;
    for (partition, key) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let messages =
            (0..EACH).map(|n| padded(key, n, MIB).to_partition(u32::try_from(partition).unwrap()));
        outbox::enqueue_batch(db.connection(), &QUEUE, messages)
            .await
            .unwrap();
    }
    // Two consumers, four partitions each, and batches of as many as there are.
    let mut worker = Worker::with(db, &["1000/1/100"]);
    let total = i64::try_from(4 * EACH).unwrap();
    eventually("all deliveries", async || {
        deliveries(db, "consumer = 'default'").await == total
            && deliveries(db, "consumer = 'ledger'").await == total
    })
    .await;
    let peak = worker.peak_memory();
    worker.stop().await;
    assert!(peak < 300 * MIB, "{} MiB", peak / MIB);
}
