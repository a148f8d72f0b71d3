//! Wiring: describes an outbox, checks it, starts it, and stops it. What runs is in `service` and
//! `delivery`.

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
