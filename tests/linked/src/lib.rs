//! Handlers that a program has as a dependency.

/// Handlers.
pub mod shipping;

/// Nothing to do with handlers, but something to call.
#[must_use]
pub fn greeting() -> &'static str {
    "hello"
}
