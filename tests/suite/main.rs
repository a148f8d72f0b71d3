//! One suite, three databases. Run it with `scripts/test`, which starts them.

mod engine;
mod enqueue;
mod migrations;
mod operations;
