//! A transactional handler's writes and its acknowledgement commit together, so they happen exactly
//! once. Every settlement checks lease and epoch: a process that lost its lease acknowledges nothing.

mod batched_claims;
mod ignored_deadlocks;
mod leases;
mod ledger;
mod lost_answers;
mod nested_transactions;
mod outdated_claims;

use super::*;
