//! The commit of a settlement is lost, or only the reply to it. What the outbox then logs and
//! announces is true.

use super::*;
use crate::captured_log::{lines, listen};
use outbox_runtime::{Outbox, OutboxHandle};
use outbox_tests::{Engine, LossyProxy, Lost, every_server};
use sea_orm::{ConnectOptions, Database};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A statement that only a settlement with a dead letter sends.
const BURIES: &str = "INSERT INTO outbox_dead_letter";

struct RejectAll;

#[async_trait::async_trait]
impl LeasedMessageHandler for RejectAll {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::reject("never")
    }
}

/// An outbox behind a proxy that loses the commit of a dead letter, or the reply.
struct Lossy {
    queue: Queue,
    proxy: LossyProxy,
    running: OutboxHandle,
    told: Arc<AtomicUsize>,
}

impl Lossy {
    async fn start(db: &TestDb, test: &str, lost: Lost, concurrency: u32) -> Self {
        listen();
        let engine = match db.engine() {
            Engine::Postgres => "postgres",
            Engine::MySql => "mysql",
            Engine::Sqlite => unreachable!("it has no connections to lose"),
        };
        let queue = format!("logged-{test}-{engine}");
        let queue = Queue::try_of(queue, Partitions::of(1)).unwrap();
        let proxy = LossyProxy::start(db.url(), BURIES, lost).await;
        let mut options = ConnectOptions::new(proxy.url());
        options.max_connections(8).sqlx_logging(false);
        let told = Arc::new(AtomicUsize::new(0));
        let hook = told.clone();
        let builder = Outbox::builder(Database::connect(options).await.unwrap())
            .on_dead_letter(move |_| {
                hook.fetch_add(1, Ordering::SeqCst);
            })
            .queue(queue.name(), queue.partitions());
        let builder = match concurrency {
            1 => builder,
            many => builder.concurrency(many),
        };
        let running = builder.leased(RejectAll).start().await.unwrap();
        Self {
            queue,
            proxy,
            running,
            told,
        }
    }

    fn log(&self, words: &str) -> usize {
        lines(self.queue.name(), words).len()
    }

    fn told(&self) -> usize {
        self.told.load(Ordering::SeqCst)
    }
}

/// Logged of a settlement that may be written or not.
const UNKNOWN: &str = "it may be written or not";

/// Only the reply is lost, and another process has claimed the partition before we know more.
async fn a_dead_letter_that_another_process_overtakes(db: &TestDb, test: &str, concurrency: u32) {
    let lossy = Lossy::start(db, test, Lost::Answer, concurrency).await;
    commit_many(db, &lossy.queue, "k", 0..1).await;
    lossy.proxy.failed().await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'other', lease_until = {}, \
            lease_epoch = lease_epoch + 1",
        db.from_now(60_000)
    ))
    .await;
    lossy.proxy.go_on();
    eventually("the hook, or a lost lease", async || {
        lossy.told() + lossy.log("lost the lease; ") > 0
    })
    .await;
    assert_eq!(
        (lossy.told(), lossy.log("went to the dead letters")),
        (1, 1)
    );
    let denied = lossy.log("nothing was written") + lossy.log(UNKNOWN);
    assert_eq!(denied, 0, "it was");
    lossy.running.stop().await;
}

async fn a_dead_letter_whose_reply_is_lost(db: &TestDb, test: &str, concurrency: u32) {
    let lossy = Lossy::start(db, test, Lost::Answer, concurrency).await;
    commit_many(db, &lossy.queue, "k", 0..1).await;
    lossy.proxy.failed().await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        1
    );
    lossy.proxy.go_on();
    eventually("the hook, or a lost lease", async || {
        lossy.told() + lossy.log("lost the lease; ") > 0
    })
    .await;
    // The next one is announced too, and nothing is said twice.
    commit_many(db, &lossy.queue, "k", 1..2).await;
    eventually("the second letter", async || {
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await == 2
    })
    .await;
    lossy.running.drained().await.unwrap();
    let denied = lossy.log("nothing was written") + lossy.log(UNKNOWN);
    assert_eq!(denied, 0, "it was");
    assert_eq!(
        (lossy.told(), lossy.log("went to the dead letters")),
        (2, 2)
    );
    lossy.running.stop().await;
}

#[every_server]
async fn a_dead_letter_is_announced_although_the_reply_to_its_commit_was_lost(db: &TestDb) {
    a_dead_letter_whose_reply_is_lost(db, "answer", 1).await;
}

#[every_server]
async fn a_dead_letter_among_many_keys_is_announced_although_the_reply_was_lost(db: &TestDb) {
    a_dead_letter_whose_reply_is_lost(db, "answer-keys", 4).await;
}

#[every_server]
async fn a_dead_letter_is_announced_although_another_process_claimed_before_the_reply(db: &TestDb) {
    a_dead_letter_that_another_process_overtakes(db, "overtaken", 1).await;
}

#[every_server]
async fn a_dead_letter_among_many_keys_is_announced_although_another_process_claimed(db: &TestDb) {
    a_dead_letter_that_another_process_overtakes(db, "overtaken-keys", 4).await;
}

/// Another process claims the message meanwhile and handles it. The cursor is then just where our
/// settlement would have left it.
#[every_server]
async fn a_settlement_of_another_process_is_not_taken_for_ours(db: &TestDb) {
    let lossy = Lossy::start(db, "commit", Lost::Commit, 1).await;
    commit_many(db, &lossy.queue, "k", 0..1).await;
    lossy.proxy.failed().await;
    db.execute(
        "UPDATE outbox_cursor SET lease_owner = NULL, lease_until = NULL, \
            lease_epoch = lease_epoch + 1, processed_seq = 1, claimed_seq = 1",
    )
    .await;
    lossy.proxy.go_on();
    eventually("that it is unknown", async || lossy.log(UNKNOWN) == 1).await;
    assert_eq!(lossy.log("nothing was written"), 0, "it is unknown");
    assert_eq!(
        (lossy.told(), lossy.log("went to the dead letters")),
        (0, 0)
    );
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    lossy.running.stop().await;
}

/// A commit that is lost is tried again.
#[every_server]
async fn a_dead_letter_whose_commit_was_lost_is_written_and_announced_once(db: &TestDb) {
    let lossy = Lossy::start(db, "again", Lost::Commit, 1).await;
    commit_many(db, &lossy.queue, "k", 0..1).await;
    lossy.proxy.failed().await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    lossy.proxy.go_on();
    eventually("the hook", async || lossy.told() > 0).await;
    lossy.running.drained().await.unwrap();
    assert_eq!(
        (lossy.told(), lossy.log("went to the dead letters")),
        (1, 1)
    );
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        1
    );
    lossy.running.stop().await;
}
