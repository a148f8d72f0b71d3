//! MySQL 8.0 or later and MariaDB 10.6 or later: only what is valid on both.
//!
//! We write by primary keys, in a fixed join order: a scan would wait for rows that are inserted and
//! not yet committed.

pub(super) mod by_keys;
pub(super) mod claim;
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
