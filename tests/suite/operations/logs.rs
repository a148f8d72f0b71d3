//! What the log says of a failure, and what it never says.

use super::*;
use crate::captured_log::{lines, listen};
use outbox::{NewMessage, Outbox, RetryPolicy};
use outbox_tests::{Engine, eventually, on_every_engine};
use std::time::Duration;

struct Closed;

#[async_trait::async_trait]
impl LeasedMessageHandler for Closed {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::retry(format!("the warehouse is closed {}", "x".repeat(5_000)))
    }
}

on_every_engine! {
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
        let id = outbox::enqueue(db.connection(), &of, message).await.unwrap();
        eventually("the burial", async || !lines(queue, "dead letters").is_empty()).await;
        running.stop().await;
        let (failed, buried) = (lines(queue, "a message failed"), lines(queue, "dead letters"));
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
        assert!(failed[0].contains("attempt=1") && failed[0].contains("retry_in=7ms"), "{}", failed[0]);
        assert!(buried[0].contains("attempts=2"), "{}", buried[0]);
    }
}
