//! The workloads, the same for every contestant, and what is measured.
//!
//! A contestant says how it enqueues, works and settles; [`run`] does the rest: it
//! reads a workload from the command line, runs it, and prints one JSON line.

mod processes;
mod settings;
mod sink;
mod workload;

pub use settings::Settings;
pub use sink::{Payload, Sink};
pub use workload::run;

use std::sync::Arc;

/// Any error of a contestant ends its run.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A system that is measured.
#[async_trait::async_trait]
pub trait Contestant: Sized + Send + Sync + 'static {
    /// Its name in the tables.
    const NAME: &'static str;
    /// Whether messages of one key arrive in order.
    const ORDERED: bool;

    /// Connects, and makes its tables and `bench_business (id bigint)`.
    async fn connect(settings: &Settings) -> Result<Self, Error>;

    /// One transaction: a row in `bench_business`, and these messages, each under
    /// its key.
    async fn enqueue(&self, messages: Vec<(String, Payload)>) -> Result<(), Error>;

    /// Starts its workers, which give every message to the sink.
    async fn work(&self, settings: &Settings, sink: Arc<Sink>) -> Result<Worker, Error>;

    /// How many messages are not yet finished: enqueued, and not yet handled,
    /// acknowledged and, if the contestant removes them, removed.
    async fn unsettled(&self) -> Result<u64, Error>;
}

/// Running workers.
pub struct Worker(Box<dyn FnOnce() -> Stopping + Send>);

type Stopping = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl Worker {
    /// Workers, and how to stop them.
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        stop: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        Self(Box::new(|| Box::pin(stop())))
    }

    pub(crate) async fn stop(self) {
        (self.0)().await;
    }
}
