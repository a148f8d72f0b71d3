//! An outbox starts, pauses, drains and stops in order. A stop ends within its grace, counts no
//! attempt and keeps no lease and no connection.

mod closed_pools;
mod drain;
mod pause;
mod start;
mod stop;

use super::*;
