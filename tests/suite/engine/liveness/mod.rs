//! Nothing waits for long, whatever is lost or hangs: a commit is noticed at once or at the next
//! poll. A slow statement, handler or transaction holds up no other.

mod dropped_statements;
mod lost_or_hanging;
mod signals;

use super::*;
