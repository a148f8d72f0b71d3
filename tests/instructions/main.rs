//! Does one step of the micro benchmark so many times, for a tool that counts the
//! instructions inside of `measured`: `outbox-test-instructions STEP TIMES`.

use bench_micro::Work;
use tokio::runtime::{Builder, Runtime};

fn main() {
    let mut words = std::env::args().skip(1);
    let step = words.next().expect("a step");
    let times: u32 = words.next().expect("how often").parse().expect("a number");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let work = runtime.block_on(Work::new());
    // What is done only once.
    runtime.block_on(perform(&work, &step, 1));
    measured(&runtime, &work, &step, times);
}

#[inline(never)]
fn measured(runtime: &Runtime, work: &Work, step: &str, times: u32) {
    runtime.block_on(perform(work, step, times));
}

async fn perform(work: &Work, step: &str, times: u32) {
    for _ in 0..times {
        match step {
            "encode" => work.encode(),
            "hash key" => work.hash_key(),
            "dispatch" => work.dispatch().await,
            "dispatch and decode" => work.dispatch_and_decode().await,
            _ => panic!("no step `{step}`"),
        }
    }
}
