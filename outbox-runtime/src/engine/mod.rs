//! Wiring: what runs, when it runs again, and how it stops.

mod builder;
mod dispatch;
mod handle;
mod supervisor;

pub use builder::{ConfigError, OutboxBuilder, QueueBuilder, StartError};
pub use handle::{Outbox, OutboxHandle, OutboxTransaction, StopReport};
