//! The tables: what the rest of the runtime asks of a database, and how each engine does it.
//!
//! Here and only here engines have names. Each has a folder with the same files. What an engine must
//! be able to do is in [`contract`]; what is the same on all of them is in the files beside it, and
//! what MySQL and SQLite share is in [`stepwise`].
//!
//! Nothing here knows of handlers, retries or policies, and nothing spawns tasks.

pub(crate) mod aging;
pub(crate) mod attempts;
pub(crate) mod connection_cache;
mod contract;
pub(crate) mod cursor;
pub(crate) mod dead_letter;
mod engine;
pub(crate) mod enqueue;
pub(crate) mod enqueued;
pub(crate) mod errors;
mod mysql;
pub(crate) mod notify;
pub(crate) mod orphan_bodies;
pub(crate) mod pass_on;
mod postgres;
pub(crate) mod progress;
pub(crate) mod race;
pub(crate) mod read_ahead;
pub(crate) mod reconcile;
pub(crate) mod registration;
#[cfg(feature = "sabotage")]
mod sabotage;
pub(crate) mod sequence;
pub(crate) mod settlement;
pub(crate) mod setup;
mod sqlite;
mod statement;
pub(crate) mod statements;
pub(crate) mod stats;
mod stepwise;
pub(crate) mod transaction;
pub(crate) mod vacuum;
mod words;

use engine::Engine;
#[cfg(feature = "sqlite")]
pub use sqlite::temporary::database;
