//! What a producer uses: events, keys, headers, messages, and enqueueing them.

pub(crate) mod decode;
pub(crate) mod enqueue;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod key;
pub(crate) mod message;
mod typed;
pub(crate) mod unique;

pub use typed::{Enqueuing, Event, enqueue, enqueue_all, enqueue_to, enqueue_with, max_payload};
