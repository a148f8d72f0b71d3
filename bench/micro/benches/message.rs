//! What a message costs in our own code: to write it, to find its partition, to call
//! its handler.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
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

fn sent() -> Sent {
    Sent {
        key: 12,
        number: 34,
        sent: 1_700_000_000_000_000,
        filler: "x".repeat(130),
    }
}

fn benches(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let outbox = runtime.block_on(async {
        let db = database().await;
        TestOutbox::of(Outbox::builder(db)).await
    });
    let mut group = criterion.benchmark_group("message");
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode", |bencher| {
        let event = sent();
        bencher.iter(|| message(black_box(event.clone()), "key-123"));
    });
    group.bench_function("key hash", |bencher| {
        let queue = Sent::QUEUE;
        bencher.iter(|| queue.partition_of_key(&black_box("key-123").to_key_bytes()));
    });
    group.bench_function("dispatch", |bencher| {
        let empty = message(Empty, "key-123");
        let deliver = || outbox.deliver_message::<take_empty>(&empty);
        bencher.to_async(&runtime).iter(deliver);
    });
    group.bench_function("and decode", |bencher| {
        let sent = message(sent(), "key-123");
        let deliver = || outbox.deliver_message::<take>(&sent);
        bencher.to_async(&runtime).iter(deliver);
    });
    group.finish();
}

criterion_group!(message_benches, benches);
criterion_main!(message_benches);
