//! What the tests stand on: a fresh database for each, on three real engines.
//!
//! [`on_every_engine!`] writes a test once and runs it as three tests, named
//! `…::postgres`, `…::mysql` and `…::sqlite`. Nothing is skipped: without a
//! server a test fails and says what to do.

mod counting_proxy;
mod database;
mod lossy_proxy;
mod private_server;
mod schema_text;

pub use counting_proxy::CountingProxy;
pub use database::{Engine, TestDb, run, run_at, run_two};
pub use lossy_proxy::{LossyProxy, Lost};
pub use private_server::PrivateServer;
pub use schema_text::schema_text;
use std::time::{Duration, Instant};

// What the macro below refers to.
#[doc(hidden)]
pub use tokio;

/// Waits until `condition` holds; fails after 30 seconds, saying what was awaited.
pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition().await {
        assert!(Instant::now() < deadline, "waited 30 s in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs each `async fn name(db: &TestDb)` on the engines that are servers, for
/// what a file cannot show: several processes, a lost connection.
#[macro_export]
macro_rules! on_every_server {
    ($($(#[doc = $doc:literal])* async fn $name:ident($db:ident: &TestDb) $body:block)*) => {$(
        $(#[doc = $doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn case($db: &$crate::TestDb) $body

            $crate::__test!(postgres, Postgres, true);
            $crate::__test!(mysql, MySql, true);
        }
    )*};
}

/// Runs each `async fn name(db: &TestDb)` on every engine, on a database of its
/// own that has the outbox tables; with `empty;` in front, that has none.
#[macro_export]
macro_rules! on_every_engine {
    (empty; $($rest:tt)*) => { $crate::__tests! { false; $($rest)* } };
    ($($rest:tt)*) => { $crate::__tests! { true; $($rest)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests {
    ($migrated:literal; $(
        $(#[doc = $doc:literal])*
        async fn $name:ident($db:ident: &TestDb) $body:block
    )*) => {$(
        $(#[doc = $doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn case($db: &$crate::TestDb) $body

            $crate::__test!(postgres, Postgres, $migrated);
            $crate::__test!(mysql, MySql, $migrated);
            $crate::__test!(sqlite, Sqlite, $migrated);
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __test {
    ($name:ident, $engine:ident, $migrated:literal) => {
        #[test]
        fn $name() {
            $crate::run($crate::Engine::$engine, $migrated, |db| Box::pin(case(db)));
        }
    };
}
