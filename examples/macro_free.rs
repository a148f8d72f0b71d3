//! The runtime alone: bytes instead of typed events, and a type that implements a trait
//! instead of an annotated function. This is for a program that forwards messages without
//! decoding them, or that must not depend on procedural macros.

use outbox::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, Outbox, OutboxMessage, OutboxProfile,
    Partitions, Queue, RetryPolicy, async_trait, enqueue, enqueue_batch,
};
use outbox_examples::{connect, say};
use sea_orm::TransactionTrait;
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// Its id and those of its partitions are computed from the name: nothing is looked up.
const READINGS: Queue = Queue::of("example.readings", Partitions::of(2));

/// Passes bytes on; a real program would send them to a broker, a socket or a file.
struct Forward(Sender<String>);

#[async_trait]
impl LeasedMessageHandler for Forward {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let Ok(text) = std::str::from_utf8(message.payload()) else {
            return HandlerResult::reject("it is not text"); // to the dead letters
        };
        let line = format!("{} {text}", message.event_type());
        match self.0.send(line).await {
            Ok(()) => HandlerResult::Success,
            Err(closed) => HandlerResult::retry(closed), // again, after a pause
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let example = connect().await?;
    outbox::migrate(&example.db).await?;
    let (sender, mut forwarded) = channel(16);
    let running = Outbox::builder(example.db.clone())
        .profile(OutboxProfile::low_latency())
        .queue(READINGS.name(), READINGS.partitions())
        .consumer("forwarder")
        .retry(RetryPolicy {
            max_attempts: 5,
            base: Duration::from_millis(100),
            ..RetryPolicy::default()
        })
        .leased(Forward(sender))
        .start()
        .await?;

    let tx = example.db.begin().await?;
    let sensor = "cellar"; // the key: readings of a sensor stay in order
    let first = NewMessage::new("temperature", sensor, "12.5");
    let id = enqueue(&tx, &READINGS, first).await?;
    let more = ["12.6", "12.4"].map(|text| NewMessage::new("temperature", sensor, text));
    let ids = enqueue_batch(&tx, &READINGS, more).await?;
    tx.commit().await?;
    say(
        "committed",
        format!("messages {id}, {} and {}", ids[0], ids[1]),
    );

    for expected in ["12.5", "12.6", "12.4"] {
        let line = forwarded.recv().await.ok_or("nothing more came")?;
        say("forwarded", &line);
        if line != format!("temperature {expected}") {
            return Err(format!("{expected} should have been next").into());
        }
    }
    running.stop().await;
    say(
        "checked",
        "three readings of a sensor, in the order they were enqueued",
    );
    Ok(())
}
