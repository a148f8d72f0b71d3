//! Delivery: one claim's life, from asking the database for messages to writing down what became of
//! them.
//!
//! What is called from outside is one bounded pass: [`processor::turn`] and [`concurrent::turn`]
//! each work on one partition of one consumer for a while. Loops over passes, and the tasks that
//! run them, are in `service`. Statements are in `database`.
//!
//! # The life of a claim
//!
//! ```text
//!                       claim: lease taken, epoch + 1
//!       ┌──────┐ ─────────────────────────────────────────> ┌─────────┐
//!       │ free │                                            │ claimed │ <────────────────┐
//!       └──────┘ <───────────────────────────────────────── └─────────┘                  │
//!          ^  ^     given back: the answer came late,         │     │ a suspect:         │
//!          │  │     or another process handles its type       │     v charged first      │
//!          │  │                                               │  ┌─────────┐             │
//!          │  │                                               │  │ charged │             │
//!          │  │                                               v  └────┬────┘             │
//!          │  │                                          ┌─────────┐  │                  │
//!          │  │                                          │ running │ <┘                  │
//!          │  │                                          └─────────┘                     │
//!          │  │                      every message done    │     │ a message failed,     │
//!          │  │  nothing new:      ┌──────┐                │     │ or a stop             │
//!          │  └─────────────────── │ done │ <──────────────┘     v                       │
//!          │     lease given back  └──────┘                 ┌────────────┐               │
//!          │                          │ acknowledged, and   │ settlement │               │
//!          │                          │ the next claim made │  written   │               │
//!          │                          └─────────────────────┼────────────┼───────────────┘
//!          └────────────────────────────────────────────────┴────────────┘
//!                                   lease given back
//!
//!       The process dies, or loses its lease, in any state from `claimed` on: the claim is `died`.
//!       The next claim takes its messages one at a time, as suspects, until all of them are passed.
//! ```
//!
//! | state | what the row of `outbox_cursor` says | where |
//! |---|---|---|
//! | free | `lease_owner` is null or `lease_until` is over; `claimed_seq = processed_seq` | `Turn::run` in `processor.rs`, `claiming::claim` |
//! | claimed | `lease_owner` is this process, `lease_epoch` is one higher, `lease_until` is ahead; `claimed_seq` is the last message claimed | `opening::open` makes the `Claim`, `Turn::work_on` hands it on |
//! | charged | as claimed; the suspect's row of `outbox_attempt` has one death more | `quarantine::charge_from_pool`, `quarantine::charge_in` |
//! | running | as claimed | `leased::work`, `transactional::work`; `guard::run` and `Routes::walk` call the handlers |
//! | done, leased | as claimed; the `Ack` is in memory | `ClaimEnd::Done`, `PartitionState::unsaved` |
//! | done, transactional | `processed_seq` moved in the transaction of the handlers; the lease stays, or the next claim is made in the same transaction | `commit` and `commit_and_claim` in `transactional/run.rs` |
//! | acknowledged | `processed_seq` is the last message done; in the same statement the next claim is made, or `lease_owner` becomes null | `claiming::claim` |
//! | settled | `processed_seq` is the last message done, `claimed_seq` the same or the last suspect, `lease_epoch` is one higher, `lease_owner` is null; failed attempts and dead letters are in the same transaction | `settlement::write` |
//! | died | `lease_until` is over, `claimed_seq > processed_seq` | no process; the next claim has `Claimed::recovering` |
//! | recovering | as claimed, with one message; `claimed_seq` stays at the last suspect until `processed_seq` reaches it | `quarantine` |
//!
//! A concurrent session (`concurrent::turn`) takes the lease alone (`lease_epoch` one higher,
//! `claimed_seq` as it was), reads messages, and writes again and again: each write (`Session::save`)
//! raises `lease_epoch` and `lease_until`, moves `processed_seq` over what is done, and sets
//! `claimed_seq` to the last message read. A handler starts only once `claimed_seq` includes its
//! message. The last write gives the lease back.
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
