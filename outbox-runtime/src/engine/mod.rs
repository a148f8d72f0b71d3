//! Wiring: what runs, when it runs again, and how it stops.

mod builder;
mod discovery;
mod dispatch;
mod drain;
mod drained;
mod handle;
mod notify;
mod orphans;
mod problem;
mod queue_builder;
mod retention;
mod sqlite;
mod start;
mod supervisor;
mod watch;

pub use builder::OutboxBuilder;
pub(crate) use drain::Passes;
pub use drained::DrainError;
pub use handle::{Outbox, OutboxHandle, OutboxTransaction, StopReport};
pub use problem::{ConfigError, StartError};
pub use queue_builder::QueueBuilder;
