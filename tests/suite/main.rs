//! One suite, three databases. Run it with `scripts/test`, which starts them.

mod bad_input;
mod captured_log;
mod dead_letters;
mod engine;
mod enqueue;
mod golden;
mod house;
mod migrations;
mod operations;
mod security;
mod statements;
mod table_location;
