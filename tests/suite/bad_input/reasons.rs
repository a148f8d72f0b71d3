//! Reasons that databases dislike: NUL, four bytes to a character, control characters, and more
//! than the column holds.

use super::*;
use outbox::prelude::*;
use outbox::{Ctx, DeadLetterFilter, LeasedMessageHandler, NewMessage, OutboxMessage, RetryPolicy};
use outbox_tests::{eventually, every_engine};
use std::time::Duration;

/// Fails with its payload as the reason.
struct Parrot;

#[async_trait::async_trait]
impl LeasedMessageHandler for Parrot {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let reason = String::from_utf8_lossy(message.payload());
        match message.event_type() {
            "retry" => HandlerResult::retry(reason),
            "panic" => panic!("{reason}"),
            _ => HandlerResult::reject(reason),
        }
    }
}

#[every_engine]
async fn any_text_may_be_a_reason(db: &TestDb) {
    let retry = RetryPolicy {
        max_attempts: 2,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
        jitter: false,
    };
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .retry(retry)
        .leased(Parrot)
        .start()
        .await
        .unwrap();
    let long = "🦀".repeat(1_000);
    let texts = [
        "a\0b",
        "🦀🦀",
        "\0",
        "",
        "\u{1b}[31m\r\n\u{7f}\u{202e}",
        "'; \\ \" ` $1 ? {",
        &long,
    ];
    for text in texts {
        for event_type in ["retry", "panic", "reject"] {
            let message = NewMessage::new(event_type, event_type, text);
            outbox::enqueue(db.connection(), &QUEUE, message)
                .await
                .unwrap();
        }
    }
    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new().limit(100);
    eventually("every letter", async || {
        running.stats().await.unwrap();
        letters.count(&all).await.unwrap() == 3 * texts.len() as u64
    })
    .await;
    for letter in letters.list(&all).await.unwrap() {
        let text = String::from_utf8(letter.payload)
            .unwrap()
            .replace('\0', "\u{fffd}");
        let told = match &*letter.event_type {
            "panic" => format!("panicked: {text}"),
            _ => text,
        };
        let kept = &told[..told.floor_char_boundary(2_000)];
        assert_eq!(letter.reason, kept, "{}", letter.event_type);
    }
    running.stop().await;
}
