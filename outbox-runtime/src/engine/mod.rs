//! Wiring: what runs, when it runs again, and how it stops.

mod assemble;
mod builder;
mod discovery;
mod drain;
mod drained;
mod handle;
mod problem;
mod queue_builder;
mod start;

pub use builder::OutboxBuilder;
pub(crate) use drain::Passes;
pub use drained::DrainError;
pub use handle::{Outbox, OutboxHandle, OutboxTransaction, StopReport};
pub use problem::{ConfigError, StartError};
pub use queue_builder::QueueBuilder;
