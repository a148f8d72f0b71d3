//! The stages: each function here is one bounded pass; loops, pauses and
//! retries belong to the engine.

mod burial;
pub(crate) mod claim;
mod claiming;
pub(crate) mod concurrent;
pub(crate) mod consumer;
pub(crate) mod failure_log;
pub(crate) mod guard;
mod lanes;
pub(crate) mod leased;
mod opening;
pub(crate) mod processor;
mod quarantine;
pub(crate) mod route;
mod settlement;
mod transaction;
pub(crate) mod transactional;
mod verdict;
pub(crate) mod wakes;
