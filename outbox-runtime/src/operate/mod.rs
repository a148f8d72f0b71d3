//! What people do with a running outbox: they look at it, and they settle its dead letters.

pub(crate) mod dead_letter;
pub(crate) mod stats;
