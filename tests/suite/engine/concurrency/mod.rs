//! With `concurrency`, many keys of a partition run at the same time and each key stays in order.
//! These tests show that, and that failures, crashes and stops lose or repeat no more than without.

mod blocked_keys;
mod changed_concurrency;
mod generated_histories;
mod independent_keys;
mod killed_processes;
mod leases;
mod observed_histories;
mod other_features;
mod random_histories;
mod throughput;
mod watch;

use super::*;
use outbox::enqueue_batch;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;
use std::collections::BTreeSet;
use std::time::Instant;
use watch::{Watch, by_key, commit_keys, log};

const LOG: Queue = Queue::of("log", Partitions::of(1));
