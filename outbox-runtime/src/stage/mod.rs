//! The stages: each function here is one bounded pass; loops, pauses and
//! retries belong to the engine.

pub(crate) mod guard;
pub(crate) mod leased;
pub(crate) mod processor;
pub(crate) mod transactional;
