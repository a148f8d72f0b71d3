//! Wiring: what runs, when it runs again, and how it stops.

mod builder;
mod dispatch;
mod handle;
mod notify;
mod problem;
mod sqlite;
mod supervisor;
mod watch;

pub use builder::{OutboxBuilder, QueueBuilder};
pub use handle::{Outbox, OutboxHandle, OutboxTransaction, StopReport};
pub use problem::{ConfigError, StartError};
