//! For the tests of programs that use the outbox: no server, no sleeps.
//!
//! - [`database`] is a migrated SQLite database of a test's own.
//! - [`assert_enqueued`] looks for an event that the code under test should have sent.
//! - [`TestOutbox::drain`] hands over everything that is due, in the test's own task, and
//!   returns when that is written down.
//! - [`TestOutbox::advance`] lets time pass: a retry is due, a lease is over.
//! - [`TestOutbox::deliver`] hands one event to one handler and says what became of it.
//! - [`message`] and [`ctx`] are a handler's arguments, for calling its function.
//! - [`assert_valid_registry`] says what `start()` would say about contradictions.
//!
//! These functions panic when they fail, because a test can do nothing else.

mod enqueued;
mod message;
mod outbox;

#[cfg(feature = "sqlite")]
pub use crate::database::database;
pub use enqueued::{assert_enqueued, assert_not_enqueued, enqueued};
pub use message::{ctx, message, message_with};
pub use outbox::{Drained, TestOutbox};

use crate::registry::registry;
use sea_orm::{ConnectionTrait, DbErr};

/// Every statement that the outbox can execute on this connection: where it is declared, and its
/// text. For the outbox's own tests.
///
/// # Errors
/// If the outbox does not know the engine.
#[doc(hidden)]
pub fn statements<C: ConnectionTrait>(conn: &C) -> Result<Vec<(&'static str, String)>, DbErr> {
    crate::database::statements::statements(conn)
}

/// Fails a test if events and handlers of this binary contradict each other, with everything that
/// `start()` would report: two handlers of one event, two modes in one consumer, two numbers of
/// partitions ...
///
/// ```
/// // in a test of yours:
/// outbox_runtime::testing::assert_valid_registry();
/// ```
///
/// # Panics
/// If they do.
pub fn assert_valid_registry() {
    let problems = registry().problems();
    assert!(
        problems.is_empty(),
        "events and handlers contradict each other:\n  - {}",
        problems.join("\n  - ")
    );
}
