//! The tables, one module per concern: binds values, runs statements, maps rows.
//!
//! Where an engine can do a thing in one statement of its own, that is in the
//! dialect; where it needs steps, the steps are here, once for all engines.

pub(crate) mod attempts;
pub(crate) mod claims;
pub(crate) mod cleanup;
pub(crate) mod clock;
pub(crate) mod connection_cache;
pub(crate) mod cursor;
pub(crate) mod dead_letter;
pub(crate) mod dialect;
pub(crate) mod enqueued;
pub(crate) mod incoming;
pub(crate) mod orphans;
pub(crate) mod progress;
pub(crate) mod race;
pub(crate) mod reconcile;
pub(crate) mod registration;
pub(crate) mod sequencing;
pub(crate) mod settlement;
pub(crate) mod setup_advice;
pub(crate) mod sql;
pub(crate) mod stats;
pub(crate) mod window;
