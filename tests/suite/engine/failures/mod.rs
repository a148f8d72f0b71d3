//! A failure is charged to the message that caused it, and to no other. A retry waits its time out,
//! attempts are limited, and a fault of the database is charged to no message.

mod attempts;
mod backoff;
mod database_errors;
mod exhausted_pool;
mod neighbours;
mod slow_database;
mod timeouts;

use super::*;
