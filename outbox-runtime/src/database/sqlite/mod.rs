//! SQLite 3.42 or later (sea-orm brings its own). There is one writer, and our transactions begin as
//! it.

pub(super) mod by_keys;
pub(super) mod claim;
pub(super) mod enqueue;
pub(super) mod errors;
pub(super) mod notify;
pub(super) mod orphan_bodies;
pub(super) mod reconcile;
pub(super) mod sequence;
pub(super) mod setup;
#[cfg(feature = "sqlite")]
pub(super) mod temporary;
pub(super) mod transaction;
pub(super) mod vacuum;
mod words;

pub(super) use words::WORDS;
