//! A call that takes too long is cut short, and counts.

use super::*;
use crate::engine::support::scripted_handler::{create_ledger, ledger};
use outbox_runtime::{
    Batch, LeasedHandler, Outbox, OutboxBuilder, QueueBuilder, TransactionalHandler,
    TransactionalMessageHandler,
};
use outbox_tests::every_engine;
use sea_orm::{ConnectionTrait, DatabaseTransaction};
use std::time::Instant;

const TIMEOUT: Duration = Duration::from_millis(300);

/// Hangs with `k:1` the first time, and notes what happens to it.
#[derive(Clone, Default)]
struct Hanging(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    remaining: Option<Duration>,
    began: Option<Instant>,
    cancelled: Option<Instant>,
    dropped: Option<Instant>,
    attempts: Vec<u32>,
    /// Ends by itself when it is asked to.
    polite: bool,
}

struct OnDrop(Hanging);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped = Some(Instant::now());
    }
}

impl Hanging {
    async fn hang(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        if message.payload() != b"k:1" {
            return HandlerResult::Success;
        }
        self.0.lock().unwrap().attempts.push(message.attempts());
        if message.attempts() > 0 {
            return HandlerResult::Success;
        }
        let _on_drop = OnDrop(self.clone());
        {
            let mut notes = self.0.lock().unwrap();
            notes.remaining = Some(ctx.remaining());
            notes.began = Some(Instant::now());
        }
        ctx.cancellation().cancelled().await;
        let polite = {
            let mut notes = self.0.lock().unwrap();
            notes.cancelled = Some(Instant::now());
            notes.polite
        };
        if !polite {
            std::future::pending::<()>().await;
        }
        HandlerResult::retry("asked to end")
    }

    async fn write(tx: &DatabaseTransaction, message: &OutboxMessage) {
        let note = String::from_utf8_lossy(message.payload()).into_owned();
        let write = format!("INSERT INTO ledger (consumer, note) VALUES ('hanging', '{note}')");
        tx.execute_unprepared(&write).await.expect("write");
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Hanging {
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        self.hang(message, ctx).await
    }
}

#[async_trait::async_trait]
impl LeasedHandler for Hanging {
    async fn handle(&self, batch: &mut Batch<'_>, ctx: &Ctx) -> HandlerResult {
        while let Some(message) = batch.next_msg() {
            match self.hang(message, ctx).await {
                HandlerResult::Success => batch.ack(),
                failed => return failed,
            }
        }
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Hanging {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        message: &OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult {
        Self::write(tx, message).await;
        self.hang(message, ctx).await
    }
}

#[async_trait::async_trait]
impl TransactionalHandler for Hanging {
    async fn handle(
        &self,
        tx: &DatabaseTransaction,
        batch: &mut Batch<'_>,
        ctx: &Ctx,
    ) -> HandlerResult {
        for message in batch.next_chunk(usize::MAX) {
            Self::write(tx, message).await;
            let result = self.hang(message, ctx).await;
            if result != HandlerResult::Success {
                return result;
            }
        }
        HandlerResult::Success
    }
}

type Serve = fn(QueueBuilder, Hanging) -> OutboxBuilder;

/// Delivers three messages, the second of which hangs; returns the reason that
/// was kept while it waited for its next attempt.
async fn deliver(db: &TestDb, hanging: &Hanging, serve: Serve) -> String {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..3).await;
    let retry = RetryPolicy {
        base: Duration::from_secs(1),
        max: Duration::from_secs(1),
        ..soon(3)
    };
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .timeout(TIMEOUT)
        .retry(retry);
    let running = serve(queue, hanging.clone()).start().await.unwrap();
    eventually("the failure", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt").await == 1
    })
    .await;
    let stats = running.stats().await.unwrap();
    let failing = stats.queues[0].consumers[0].failing.clone();
    drained(db).await;
    assert!(running.stop().await.clean);
    assert_eq!((failing[0].attempts, &*failing[0].key), (1, &b"k"[..]));
    failing[0].reason.clone().expect("a reason")
}

fn assert_cut_short(hanging: &Hanging, reason: &str) {
    assert!(reason.contains("timed out after 300ms"), "{reason}");
    let notes = hanging.0.lock().unwrap();
    let remaining = notes.remaining.expect("it ran");
    assert!(remaining <= TIMEOUT);
    let (began, cancelled) = (notes.began.unwrap(), notes.cancelled.expect("asked first"));
    let dropped = notes.dropped.expect("then dropped");
    assert!(
        cancelled - began >= remaining.saturating_sub(Duration::from_millis(10)),
        "{:?}",
        cancelled - began
    );
    assert!(
        dropped - cancelled >= Duration::from_millis(200),
        "{:?}",
        dropped - cancelled
    );
    assert!(
        dropped - began < Duration::from_secs(10),
        "long before its lease ends"
    );
    assert_eq!(notes.attempts.last(), Some(&1), "it counts");
}

#[every_engine]
async fn a_leased_message_is_cut_short(db: &TestDb) {
    let hanging = Hanging::default();
    let reason = deliver(db, &hanging, |queue, handler| queue.leased(handler)).await;
    assert_cut_short(&hanging, &reason);
}

#[every_engine]
async fn a_leased_batch_is_cut_short_and_keeps_what_is_acknowledged(db: &TestDb) {
    let hanging = Hanging::default();
    let reason = deliver(db, &hanging, |queue, handler| queue.leased_batch(handler)).await;
    assert_cut_short(&hanging, &reason);
    assert_eq!(hanging.0.lock().unwrap().attempts, [0, 1]);
}

#[every_engine]
async fn a_transactional_message_is_cut_short_and_rolled_back(db: &TestDb) {
    let hanging = Hanging::default();
    let reason = deliver(db, &hanging, |queue, handler| queue.transactional(handler)).await;
    assert_cut_short(&hanging, &reason);
    assert_eq!(ledger(db, "hanging").await, ["k:0", "k:1", "k:2"], "once");
}

#[every_engine]
async fn a_transactional_batch_is_cut_short_and_rolled_back(db: &TestDb) {
    let hanging = Hanging::default();
    let reason = deliver(db, &hanging, |queue, handler| {
        queue.transactional_batch(handler)
    })
    .await;
    assert_cut_short(&hanging, &reason);
    assert_eq!(ledger(db, "hanging").await, ["k:0", "k:1", "k:2"], "once");
}

#[every_engine]
async fn a_handler_that_ends_when_asked_adds_its_reason(db: &TestDb) {
    let hanging = Hanging::default();
    hanging.0.lock().unwrap().polite = true;
    let reason = deliver(db, &hanging, |queue, handler| queue.leased(handler)).await;
    assert_eq!(reason, "timed out after 300ms: asked to end");
}

#[every_engine]
async fn a_timeout_of_zero_or_beyond_the_lease_is_refused(db: &TestDb) {
    for timeout in [Duration::ZERO, Duration::from_secs(29)] {
        let error = Outbox::builder(db.connection().clone())
            .queue("orders", QUEUE.partitions())
            .timeout(timeout)
            .leased(Seen::default())
            .start()
            .await
            .err()
            .expect("the lease is 30 s less 2 s");
        assert!(
            error
                .to_string()
                .contains(&format!("the timeout ({timeout:?})")),
            "{error}"
        );
    }
}
