//! Tuning at work: batches shrink and grow, workers pause.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted};
use outbox_runtime::{
    Batch, LeasedHandler, Outbox, OutboxProfile, TransactionalHandler, WorkerTuning,
};
use outbox_tests::every_engine;
use sea_orm::DatabaseTransaction;
use std::time::Instant;

/// Notes how many messages it is given at once; one message fails at first.
#[derive(Clone)]
struct Sizing {
    failing: &'static str,
    /// It fails while it has been tried less often than this.
    failures: u32,
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl Sizing {
    fn fails(&self, message: &OutboxMessage) -> bool {
        message.payload() == self.failing.as_bytes() && message.attempts() < self.failures
    }
}

#[async_trait::async_trait]
impl LeasedHandler for Sizing {
    async fn handle(&self, batch: &mut Batch<'_>, _: &Ctx) -> HandlerResult {
        self.sizes.lock().unwrap().push(batch.len());
        while let Some(message) = batch.next_msg() {
            if self.fails(message) {
                return HandlerResult::retry("not yet");
            }
            batch.ack();
        }
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl TransactionalHandler for Sizing {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        _: &Ctx,
    ) -> HandlerResult {
        let messages = batch.next_chunk(usize::MAX);
        self.sizes.lock().unwrap().push(messages.len());
        if messages.iter().any(|message| self.fails(message)) {
            return HandlerResult::retry("not yet");
        }
        HandlerResult::Success
    }
}

/// The sizes of the batches in which `messages` are delivered, eight at once at
/// best, if one of them fails so often.
async fn sizes(
    db: &TestDb,
    threshold: u32,
    (failing, failures): (&'static str, u32),
    messages: usize,
    kind: Kind,
) -> Vec<usize> {
    let handler = Sizing {
        failing,
        failures,
        sizes: Arc::default(),
    };
    let tuning = OutboxProfile::default().processor.batch_size(8);
    let queue = Outbox::builder(db.connection().clone())
        .processor_tuning(tuning.degradation_threshold(threshold))
        .queue("orders", QUEUE.partitions())
        .retry(soon(9));
    let builder = if kind.is_transactional() {
        queue.transactional_batch(handler.clone())
    } else {
        queue.leased_batch(handler.clone())
    };
    commit_many(db, &QUEUE, "k", 0..messages).await;
    let running = builder.start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let sizes = handler.sizes.lock().unwrap();
    sizes.clone()
}

/// 80 ms, then 50, then 20 between passes: nine of them are at least this long.
const NINE_PAUSES: Duration = Duration::from_millis(80 + 50 + 7 * 20);

fn paced(tuning: WorkerTuning, batch_size: u32) -> WorkerTuning {
    tuning
        .batch_size(batch_size)
        .active_interval(Duration::from_millis(80))
        .ramp_step(Duration::from_millis(30))
        .min_interval(Duration::from_millis(20))
}

#[every_engine]
async fn a_batch_shrinks_to_what_succeeded_and_doubles_again(db: &TestDb) {
    // Three went well; then the failing one alone, and twice what was.
    let sizes = sizes(db, 1, ("k:3", 1), 26, Kind::LeasedBatch).await;
    assert_eq!(sizes, [8, 1, 6, 8, 8]);
}

#[every_engine]
async fn a_batch_whose_first_message_fails_shrinks_to_one(db: &TestDb) {
    let sizes = sizes(db, 1, ("k:0", 1), 23, Kind::LeasedBatch).await;
    assert_eq!(sizes, [8, 1, 2, 4, 8, 8]);
}

#[every_engine]
async fn fewer_failures_than_the_threshold_do_not_shrink_a_batch(db: &TestDb) {
    let sizes = sizes(db, 3, ("k:0", 2), 25, Kind::LeasedBatch).await;
    assert_eq!(sizes, [8, 1, 1, 8, 8, 8]);
}

#[every_engine]
async fn as_many_failures_as_the_threshold_shrink_a_batch(db: &TestDb) {
    let sizes = sizes(db, 3, ("k:0", 3), 23, Kind::LeasedBatch).await;
    assert_eq!(sizes, [8, 1, 1, 1, 2, 4, 8, 8]);
}

/// A transactional batch that fails costs one more call, because its failure is charged to a
/// message only when that message ran alone.
#[every_engine]
async fn transactional_batches_shrink_by_the_same_rule(db: &TestDb) {
    let sizes = sizes(db, 3, ("k:0", 3), 23, Kind::TransactionalBatch).await;
    assert_eq!(sizes, [8, 1, 1, 1, 1, 2, 4, 8, 8]);
}

#[every_engine]
async fn transactional_batches_below_the_threshold_do_not_shrink(db: &TestDb) {
    let sizes = sizes(db, 3, ("k:0", 2), 25, Kind::TransactionalBatch).await;
    assert_eq!(sizes, [8, 1, 1, 1, 8, 8, 8]);
}

#[every_engine]
async fn a_processor_pauses_between_batches(db: &TestDb) {
    let handler = Scripted::new(Kind::LeasedEach, |_, _| Act::Succeed);
    commit_many(db, &QUEUE, "k", 0..10).await;
    let queue = Outbox::builder(db.connection().clone())
        .processor_tuning(paced(OutboxProfile::default().processor, 1))
        .queue("orders", QUEUE.partitions());
    let running = handler.serve(queue).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let at: Vec<Instant> = handler.calls().iter().map(|call| call.at).collect();
    let pauses = [80, 50, 20, 20, 20, 20, 20, 20, 20].map(Duration::from_millis);
    assert_eq!(at.len(), pauses.len() + 1);
    for (two, pause) in at.windows(2).zip(pauses) {
        assert!(
            two[1] - two[0] >= pause,
            "{:?} instead of {pause:?}",
            two[1] - two[0]
        );
    }
}

#[every_engine]
async fn a_sequencer_pauses_between_full_passes(db: &TestDb) {
    let seen = Seen::default();
    commit_many(db, &QUEUE, "k", 0..10).await;
    let began = Instant::now();
    let running = Outbox::builder(db.connection().clone())
        .sequencer_tuning(paced(OutboxProfile::default().sequencer, 1))
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    seen.reaches(10).await;
    assert!(began.elapsed() >= NINE_PAUSES, "{:?}", began.elapsed());
    running.stop().await;
}

#[every_engine]
async fn vacuum_pauses_between_full_passes(db: &TestDb) {
    let seen = Seen::default();
    let builder = || Outbox::builder(db.connection().clone());
    commit_many(db, &QUEUE, "k", 0..20).await;
    let running = builder()
        .retention(Duration::from_secs(3_600))
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    seen.reaches(20).await;
    running.stop().await;
    let began = Instant::now();
    let running = builder()
        .vacuum_tuning(paced(OutboxProfile::default().vacuum, 2))
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    assert!(began.elapsed() >= NINE_PAUSES, "{:?}", began.elapsed());
    running.stop().await;
}
