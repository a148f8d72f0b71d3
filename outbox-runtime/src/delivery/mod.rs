//! Delivery: one claim's life, from asking the database for messages to writing down what became of
//! them.
//!
//! What is called from outside is one bounded pass: [`processor::turn`] and [`concurrent::turn`]
//! each work on one partition of one consumer for a while. Loops over passes, and the tasks that
//! run them, are in `service`. Statements are in `database`.
//!
//! ARCHITECTURE.md has the life of a claim as a state diagram, with what the cursor's row says in each
//! state.
//!
//! # Where to find what
//!
//! | file | what |
//! |---|---|
//! | `consumer` | a consumer in this process: what its partitions have in common |
//! | `processor` | a turn: claim, open, hand over to the mode, go on |
//! | `claim`, `claiming`, `claim_batcher`, `opening` | a claim, asking for one, asking for many at once, and turning rows into messages |
//! | `leased`, `transactional/` | the two modes, for one key at a time |
//! | `concurrent/`, `lanes` | leased, for many keys of a partition at a time |
//! | `route`, `guard` | which handler gets a message, and how long it may run |
//! | `verdict`, `settlement`, `burial` | what a result means, writing it down, dead letters |
//! | `quarantine/` | messages that are suspected of killing their process |
//! | `transaction` | the connection of transactional handlers |
//! | `failure_log`, `wakes` | which failures are warnings, and signals to a partition |

mod burial;
pub(crate) mod claim;
pub(crate) mod claim_batcher;
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
#[cfg(feature = "sabotage")]
mod sabotage;
mod settlement;
mod transaction;
pub(crate) mod transactional;
mod verdict;
pub(crate) mod wakes;
