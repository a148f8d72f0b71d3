//! Events as their macro registers them.

use crate::event::Event;
use crate::queue::Queue;

/// An event of this binary, and where it is declared.
#[derive(Debug)]
#[non_exhaustive]
pub struct EventRegistration {
    /// The event type on the wire.
    pub name: &'static str,
    /// Names it had earlier.
    pub aliases: &'static [&'static str],
    /// The queue it goes to.
    pub queue: Queue,
    /// The Rust type, with its module.
    pub rust_type: &'static str,
    /// The file it is declared in.
    pub file: &'static str,
    /// The line of its attribute.
    pub line: u32,
}

impl EventRegistration {
    /// What the macros submit.
    #[doc(hidden)]
    #[must_use]
    pub const fn of<E: Event>(rust_type: &'static str, file: &'static str, line: u32) -> Self {
        Self {
            name: E::NAME,
            aliases: E::ALIASES,
            queue: E::QUEUE,
            rust_type,
            file,
            line,
        }
    }
}

inventory::collect!(EventRegistration);

/// Every event linked into this binary, in no particular order.
pub fn events() -> impl Iterator<Item = &'static EventRegistration> {
    inventory::iter::<EventRegistration>()
}

impl EventRegistration {
    /// Its name and its earlier names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name].into_iter().chain(self.aliases.iter().copied())
    }

    /// Where it is declared, in words.
    pub(crate) fn declared_at(&self) -> String {
        format!("`{}` ({}:{})", self.rust_type, self.file, self.line)
    }
}
