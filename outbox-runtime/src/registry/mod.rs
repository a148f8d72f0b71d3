//! What the macros register: every event and every handler that is linked into the binary. And
//! whether they fit together.

mod events;
mod graph;
mod handlers;

pub use crate::handler::Mode;
pub use events::{EventRegistration, events};
pub(crate) use graph::disagreements;
pub use graph::{ConsumerInfo, Registry, registry};
pub use handlers::{HandlerOptions, HandlerRegistration, OutboxHandler};
