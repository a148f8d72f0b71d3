//! A settlement's commit is lost, or only the answer to it: what is said afterwards is so.

use super::*;
use crate::captured_log::{lines, listen};
use outbox_runtime::{Outbox, OutboxHandle};
use outbox_tests::{Engine, LossyProxy, Lost, every_server};
use sea_orm::{ConnectOptions, Database};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What only a settlement that buries says.
const BURIES: &str = "INSERT INTO outbox_dead_letter";

struct RejectAll;

#[async_trait::async_trait]
impl LeasedMessageHandler for RejectAll {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::reject("never")
    }
}

/// An outbox behind a proxy that loses what is said of a burial.
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

/// What is logged of a settlement of which nobody knows whether it is written.
const UNKNOWN: &str = "it may be written or not";

/// Only the answer is lost, and somebody else has claimed the partition before we know more.
async fn a_burial_that_somebody_overtakes(db: &TestDb, test: &str, concurrency: u32) {
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

async fn a_burial_whose_answer_is_lost(db: &TestDb, test: &str, concurrency: u32) {
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
async fn a_burial_is_announced_although_the_answer_to_it_was_lost(db: &TestDb) {
    a_burial_whose_answer_is_lost(db, "answer", 1).await;
}

#[every_server]
async fn so_is_one_among_many_keys(db: &TestDb) {
    a_burial_whose_answer_is_lost(db, "answer-keys", 4).await;
}

#[every_server]
async fn a_burial_whose_answer_was_lost_is_announced_although_it_was_overtaken(db: &TestDb) {
    a_burial_that_somebody_overtakes(db, "overtaken", 1).await;
}

#[every_server]
async fn so_is_an_overtaken_one_among_many_keys(db: &TestDb) {
    a_burial_that_somebody_overtakes(db, "overtaken-keys", 4).await;
}

/// Somebody else claims the message meanwhile and handles it. The cursor is then just
/// where our burial would have left it.
#[every_server]
async fn what_somebody_else_did_is_not_taken_for_a_burial_of_ours(db: &TestDb) {
    let lossy = Lossy::start(db, "commit", Lost::Commit, 1).await;
    commit_many(db, &lossy.queue, "k", 0..1).await;
    lossy.proxy.failed().await;
    db.execute(
        "UPDATE outbox_cursor SET lease_owner = NULL, lease_until = NULL, \
            lease_epoch = lease_epoch + 1, processed_seq = 1, claimed_seq = 1",
    )
    .await;
    lossy.proxy.go_on();
    eventually("that nobody knows", async || lossy.log(UNKNOWN) == 1).await;
    assert_eq!(lossy.log("nothing was written"), 0, "nobody knows");
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

/// A commit that is lost is made again.
#[every_server]
async fn a_burial_whose_commit_was_lost_is_made_and_announced_once(db: &TestDb) {
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
