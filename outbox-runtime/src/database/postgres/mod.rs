//! PostgreSQL 13 or later: what takes steps elsewhere is one statement here.

pub(super) mod claim;
#[cfg(feature = "postgres")]
pub(super) mod connections;
pub(super) mod enqueue;
pub(super) mod errors;
pub(super) mod notify;
pub(super) mod orphan_bodies;
pub(super) mod reconcile;
pub(super) mod sequence;
pub(super) mod setup;
pub(super) mod transaction;
pub(super) mod vacuum;
mod words;

pub(super) use words::WORDS;
