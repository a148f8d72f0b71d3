//! A message that kills its process, a real one, each time.

use super::*;
use crate::engine::support::worker_process::{Worker, create_delivery};
use outbox_tests::{every_engine, every_server};
use std::collections::BTreeSet;
use std::time::Instant;

/// Six keys on four partitions.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Which consumer dies of which message, how often it may, and how it works.
struct Case {
    consumer: &'static str,
    text: &'static str,
    max_attempts: u32,
    /// Microseconds that a delivery takes, and how many keys at a time.
    pace: &'static str,
    /// Messages of each key.
    each: usize,
}

impl Case {
    fn spawn(&self, db: &TestDb) -> Worker {
        let attempts = self.max_attempts.to_string();
        Worker::with(db, &[self.pace, self.consumer, self.text, &attempts])
    }

    /// What a consumer is to get.
    fn expected(&self, consumer: &str) -> BTreeSet<String> {
        let numbers = KEYS
            .iter()
            .flat_map(|key| (0..self.each).map(move |n| (key, n)));
        let texts = numbers.map(|(key, n)| format!("{key}:{n}"));
        texts
            .filter(|text| consumer != self.consumer || text != self.text)
            .collect()
    }

    /// Restarts the worker each time it dies, until every message is delivered or a dead letter.
    /// Then only the deadly message is a dead letter, after as many kills as attempts are allowed.
    async fn assert_buried_alone(&self, db: &TestDb) {
        create_delivery(db).await;
        // A registered consumer has its cursors.
        let mut worker = Worker::with(db, &["0"]);
        eventually("both consumers", async || {
            db.number("SELECT COUNT(*) FROM outbox_consumer").await == 2
        })
        .await;
        worker.stop().await;
        for key in KEYS {
            commit_many(db, &QUEUE, key, 0..self.each).await;
        }
        let mut worker = self.spawn(db);
        let mut kills = 0;
        let deadline = Instant::now() + Duration::from_secs(100);
        let letters = outbox::DeadLetters::new(db.connection().clone());
        loop {
            if worker.is_dead() {
                kills += 1;
                assert!(kills <= self.max_attempts + 1, "{kills} kills");
                worker = self.spawn(db);
            }
            let found = letters
                .list(&outbox::DeadLetterFilter::new())
                .await
                .unwrap();
            for letter in &found {
                let text = String::from_utf8_lossy(&letter.payload);
                assert_eq!(
                    (&*letter.consumer, &*text),
                    (self.consumer, self.text),
                    "{letter:?}"
                );
                assert_eq!(letter.attempts, self.max_attempts);
                assert!(letter.reason.contains("never returned"), "{letter:?}");
            }
            let mut done = found.len() == 1;
            for consumer in ["default", "ledger"] {
                let notes = format!("SELECT note FROM delivery WHERE consumer = '{consumer}'");
                let notes: BTreeSet<String> = db.texts(&notes).await.into_iter().collect();
                done &= notes == self.expected(consumer);
            }
            if done {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{kills} kills, {} letters",
                found.len()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drained_after_a_kill(db).await;
        worker.stop().await;
        let booked = db
            .number("SELECT COUNT(*) FROM delivery WHERE consumer = 'ledger'")
            .await;
        assert_eq!(
            usize::try_from(booked).unwrap(),
            self.expected("ledger").len(),
            "exactly once, whatever died"
        );
    }
}

#[every_engine]
async fn a_message_that_aborts_its_process_becomes_the_only_dead_letter(db: &TestDb) {
    Case {
        consumer: "default",
        text: "a:7",
        max_attempts: 3,
        pace: "500",
        each: 15,
    }
    .assert_buried_alone(db)
    .await;
}

#[every_engine]
async fn a_message_that_aborts_its_process_in_a_transaction_becomes_the_only_dead_letter(
    db: &TestDb,
) {
    Case {
        consumer: "ledger",
        text: "a:7",
        max_attempts: 3,
        pace: "500",
        each: 15,
    }
    .assert_buried_alone(db)
    .await;
}

// There is one writer on SQLite: slow neighbours would die of waiting for it.
/// Neighbours on other partitions that are always at work when the process dies.
#[every_server]
async fn slow_neighbours_of_a_deadly_message_are_delivered(db: &TestDb) {
    Case {
        consumer: "default",
        text: "a:0",
        max_attempts: 2,
        pace: "100000",
        each: 3,
    }
    .assert_buried_alone(db)
    .await;
}

#[every_server]
async fn slow_neighbours_of_a_deadly_message_are_delivered_if_one_attempt_is_allowed(db: &TestDb) {
    Case {
        consumer: "default",
        text: "a:0",
        max_attempts: 1,
        pace: "100000",
        each: 3,
    }
    .assert_buried_alone(db)
    .await;
}

#[every_server]
async fn a_message_that_aborts_its_process_becomes_the_only_dead_letter_among_many_keys(
    db: &TestDb,
) {
    Case {
        consumer: "default",
        text: "a:7",
        max_attempts: 3,
        pace: "500/8",
        each: 15,
    }
    .assert_buried_alone(db)
    .await;
}

#[every_server]
async fn slow_neighbours_of_a_deadly_message_are_delivered_among_many_keys(db: &TestDb) {
    Case {
        consumer: "default",
        text: "a:0",
        max_attempts: 2,
        pace: "100000/8",
        each: 3,
    }
    .assert_buried_alone(db)
    .await;
}
