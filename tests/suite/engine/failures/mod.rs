//! A failure is charged to the message that caused it, and to no other message. A retry waits its
//! time out, attempts are limited, and a fault of the database is charged to nobody.

mod attempts;
mod backoff;
mod database_errors;
mod exhausted_pool;
mod neighbours;
mod slow_database;
mod timeouts;

use super::*;
