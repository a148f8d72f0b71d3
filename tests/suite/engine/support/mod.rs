//! Handlers, processes and counts that several folders of tests share.

pub(crate) mod gated_handler;
pub(crate) mod scripted_handler;
pub(crate) mod shared_keys;
pub(crate) mod statement_counts;
pub(crate) mod vacuum_passes;
pub(crate) mod ways;
pub(crate) mod worker_process;
