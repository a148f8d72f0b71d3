//! The stages: each function here is one bounded pass; loops, pauses and
//! retries belong to the engine.

pub(crate) mod guard;
pub(crate) mod leased;
mod opening;
pub(crate) mod processor;
mod settlement;
pub(crate) mod transactional;
