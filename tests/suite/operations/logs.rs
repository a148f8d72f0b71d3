//! What the log says of a failure, and what it never says.

use super::*;
use crate::captured_log::{lines, listen};
use outbox::{NewMessage, Outbox, OutboxHandle, RetryPolicy};
use outbox_tests::{Engine, TestDb, eventually, every_engine};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

struct Closed;

#[async_trait::async_trait]
impl LeasedMessageHandler for Closed {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::retry(format!("the warehouse is closed {}", "x".repeat(5_000)))
    }
}

/// Fails a message so often before it succeeds. One that says `on` fails on until there
/// was a second warning.
#[derive(Clone)]
struct Failing {
    queue: Queue,
    times: u32,
    failures: Arc<AtomicUsize>,
}

impl Failing {
    /// A queue that only one test uses, whose name is captured in the log.
    fn new(db: &TestDb, test: &str, times: u32) -> Self {
        listen();
        let name = format!("logged-{test}-{:?}", db.engine()).to_lowercase();
        Self {
            queue: Queue::try_of(name, Partitions::of(1)).unwrap(),
            times,
            failures: Arc::default(),
        }
    }

    async fn start(&self, db: &TestDb) -> OutboxHandle {
        let soon = RetryPolicy {
            max_attempts: 100_000,
            base: Duration::from_millis(1),
            max: Duration::from_millis(1),
            jitter: false,
        };
        let queue = Outbox::builder(db.connection().clone())
            .queue(self.queue.name(), self.queue.partitions())
            .retry(soon);
        queue.leased(self.clone()).start().await.unwrap()
    }

    async fn commit(&self, db: &TestDb, text: &str) {
        let message = NewMessage::new("step", 1, text);
        outbox::enqueue(db.connection(), &self.queue, message)
            .await
            .unwrap();
    }

    /// What the log says of failures, in order.
    fn logged(&self) -> Vec<String> {
        lines(self.queue.name(), "a message failed")
    }

    fn warnings(&self) -> Vec<String> {
        let mut logged = self.logged();
        logged.retain(|line| line.contains(" WARN "));
        logged
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Failing {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let on = message.payload() == b"on" && self.warnings().len() < 2;
        if message.attempts() >= self.times && !on {
            return HandlerResult::Success;
        }
        self.failures.fetch_add(1, Ordering::SeqCst);
        match on {
            true => HandlerResult::retry_after(Duration::from_millis(50), "on and on"),
            false => HandlerResult::retry("not yet"),
        }
    }
}

/// How many failures came before a warning without one.
fn unwarned(line: &str) -> usize {
    let (_, rest) = line.split_once("unwarned=").expect("how many there were");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[every_engine]
async fn first_and_second_failures_are_no_warnings(db: &TestDb) {
    let failing = Failing::new(db, "first", 2);
    let running = failing.start(db).await;
    for _ in 0..20 {
        failing.commit(db, "text").await;
    }
    running.drained().await.unwrap();
    running.stop().await;
    assert_eq!(failing.warnings(), [""; 0]);
    let logged = failing.logged();
    assert_eq!(logged.len(), 40, "each is logged");
    assert!(
        logged.iter().all(|line| line.contains("DEBUG")),
        "{logged:?}"
    );
}

#[every_engine]
async fn the_third_failure_of_a_message_is_a_warning(db: &TestDb) {
    let failing = Failing::new(db, "third", 3);
    let running = failing.start(db).await;
    failing.commit(db, "text").await;
    running.drained().await.unwrap();
    running.stop().await;
    let warnings = failing.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    for part in ["attempt=3", "max_attempts=100000", "unwarned=2", "not yet"] {
        assert!(
            warnings[0].contains(part),
            "{part} is not in {}",
            warnings[0]
        );
    }
}

#[every_engine]
async fn a_flood_of_failures_makes_few_warnings_that_count_the_rest(db: &TestDb) {
    let failing = Failing::new(db, "flood", 5);
    let began = Instant::now();
    let running = failing.start(db).await;
    for _ in 0..40 {
        failing.commit(db, "text").await;
    }
    failing.commit(db, "on").await;
    running.drained().await.unwrap();
    let most = began.elapsed().as_secs() / 10 + 1;
    running.stop().await;
    let (logged, warnings) = (failing.logged(), failing.warnings());
    assert!(
        warnings.len() >= 2 && warnings.len() as u64 <= most,
        "{warnings:?}"
    );
    assert_eq!(
        logged.len(),
        failing.failures.load(Ordering::SeqCst),
        "each is logged"
    );
    let mut since = 0;
    for line in logged {
        if line.contains(" WARN ") {
            assert_eq!(unwarned(&line), since);
            since = 0;
        } else {
            since += 1;
        }
    }
}

#[every_engine]
async fn a_failure_is_logged_with_all_but_its_key_and_payload(db: &TestDb) {
    listen();
    let queue = match db.engine() {
        Engine::Postgres => "logged-postgres",
        Engine::MySql => "logged-mysql",
        Engine::Sqlite => "logged-sqlite",
    };
    let retry = RetryPolicy {
        max_attempts: 2,
        base: Duration::from_millis(7),
        max: Duration::from_millis(7),
        jitter: false,
    };
    let running = Outbox::builder(db.connection().clone())
        .queue(queue, Partitions::of(1))
        .retry(retry)
        .leased(Closed)
        .start()
        .await
        .unwrap();
    let message = NewMessage::new("order.created", "s3cret-key", "s3cret-payload");
    let of = Queue::try_of(queue, Partitions::of(1)).unwrap();
    let id = outbox::enqueue(db.connection(), &of, message)
        .await
        .unwrap();
    eventually("the burial", async || {
        !lines(queue, "dead letters").is_empty()
    })
    .await;
    running.stop().await;
    let (failed, buried) = (
        lines(queue, "a message failed"),
        lines(queue, "dead letters"),
    );
    assert_eq!((failed.len(), buried.len()), (1, 1));
    for line in failed.iter().chain(&buried) {
        for part in [
            &format!("queue=\"{queue}\""),
            "partition=0",
            "consumer=\"default\"",
            "order.created",
            "sequence=1",
            &format!("id={id}"),
            "the warehouse is closed",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(line.len() < 3_000, "{} bytes", line.len());
        assert!(!line.contains("s3cret"), "{line}");
    }
    assert!(
        failed[0].contains("attempt=1") && failed[0].contains("retry_in=7ms"),
        "{}",
        failed[0]
    );
    assert!(buried[0].contains("attempts=2"), "{}", buried[0]);
}
