//! One suite, three databases. Run it with `scripts/test`, which starts them.

mod dead_letters;
mod engine;
mod enqueue;
mod migrations;
mod operations;
