//! What delivering costs is bounded: statements, connections, running handlers, bytes in memory.
//! These tests count, and fail if a change lets a message or an idle queue cost more.

mod batch_bytes;
mod handler_limits;
mod registration;
mod statements;
mod tuning;

use super::*;
