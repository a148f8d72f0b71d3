//! One suite, three databases. Run it with `scripts/test`, which starts them.

mod enqueue;
mod migrations;
