//! What the tests stand on: a fresh database for each, on three real engines.
//!
//! [`every_engine`] on an `async fn name(db: &TestDb)` makes three tests of it, named
//! `…::name::postgres`, `…::name::mysql` and `…::name::sqlite`. [`every_server`] leaves SQLite
//! out, [`engines`] lists those of a test, and [`postgres`], [`mysql`] and [`sqlite`] choose one.
//! The argument `empty` asks for a database without the outbox tables. Nothing is skipped:
//! without a server a test fails and says what to do.

mod counting_proxy;
mod database;
mod lossy_proxy;
mod private_server;
mod schema_text;

pub use counting_proxy::CountingProxy;
pub use database::{Engine, TestDb, run, run_at, run_two};
pub use lossy_proxy::{LossyProxy, Lost};
pub use outbox_test_attributes::{engines, every_engine, every_server, mysql, postgres, sqlite};
pub use private_server::PrivateServer;
pub use schema_text::schema_text;
use std::time::{Duration, Instant};

/// Waits until `condition` holds; fails after 30 seconds, saying what was awaited.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "waited 30 s in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
