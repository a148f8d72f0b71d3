//! The steps of our own code for every message: to write it, to find its partition, to
//! call its handler. The bench beside this times them; the test of costs counts their instructions.

use outbox::EventKey;
use outbox::prelude::*;
use outbox::testing::{TestOutbox, database, message};
use std::hint::black_box;

/// About 200 bytes as JSON, like the messages of the other benchmarks.
#[outbox_event(queue = "micro", partitions = 16)]
#[derive(Serialize, Deserialize, Clone)]
struct Sent {
    key: u32,
    number: u32,
    sent: u64,
    filler: String,
}

/// Nothing to decode.
#[outbox_event(queue = "micro", partitions = 16)]
#[derive(Serialize, Deserialize, Clone)]
struct Empty;

#[outbox_handler(mode = leased)]
async fn take(event: Sent) {
    black_box(event.number);
}

#[outbox_handler(mode = leased)]
async fn take_empty(_event: Empty) {}

/// Everything that the steps need.
pub struct Work {
    outbox: TestOutbox,
    event: Sent,
    sent: Message<Sent>,
    empty: Message<Empty>,
}

impl Work {
    /// On a database of its own.
    pub async fn new() -> Self {
        let event = Sent {
            key: 12,
            number: 34,
            sent: 1_700_000_000_000_000,
            filler: "x".repeat(130),
        };
        Self {
            outbox: TestOutbox::of(Outbox::builder(database().await)).await,
            sent: message(event.clone(), "key-123"),
            empty: message(Empty, "key-123"),
            event,
        }
    }

    /// An event becomes a message.
    pub fn encode(&self) {
        black_box(message(black_box(self.event.clone()), "key-123"));
    }

    /// A key becomes a partition.
    pub fn hash_key(&self) {
        let key = black_box("key-123").to_key_bytes();
        black_box(Sent::QUEUE.partition_of_key(&key));
    }

    /// A message reaches its handler.
    pub async fn dispatch(&self) {
        let delivered = self.outbox.deliver_message::<take_empty>(&self.empty);
        black_box(delivered.await);
    }

    /// The same, with something to decode.
    pub async fn dispatch_and_decode(&self) {
        let delivered = self.outbox.deliver_message::<take>(&self.sent);
        black_box(delivered.await);
    }
}
