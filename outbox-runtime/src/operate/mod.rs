//! What people do with a running outbox: look at it, and settle its dead letters.

pub(crate) mod dead_letter;
pub(crate) mod stats;
