//! How long a message takes in our own code.

use bench_micro::Work;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn benches(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let work = runtime.block_on(Work::new());
    let mut group = criterion.benchmark_group("message");
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode", |bencher| bencher.iter(|| work.encode()));
    group.bench_function("key hash", |bencher| bencher.iter(|| work.hash_key()));
    group.bench_function("dispatch", |bencher| {
        bencher.to_async(&runtime).iter(|| work.dispatch());
    });
    group.bench_function("and decode", |bencher| {
        bencher
            .to_async(&runtime)
            .iter(|| work.dispatch_and_decode());
    });
    group.finish();
}

criterion_group!(message_benches, benches);
criterion_main!(message_benches);
