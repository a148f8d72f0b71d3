//! Handlers as their macro registers them.

use crate::config::{LeaseConfig, RetryPolicy};
use crate::handler::typed::{EventInfo, FunctionHandler};
use crate::handler::{AnyHandler, Mode, StateType};
use crate::queue::Queue;
use std::fmt;
use std::time::Duration;

/// A handler as a type. `#[outbox_handler]` makes it beside the function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "put `#[outbox_handler(mode = leased)]` or `#[outbox_handler(mode = transactional)]` on a \
            function, and name that"
)]
pub trait OutboxHandler: 'static {
    /// What is registered.
    #[doc(hidden)]
    const REGISTRATION: HandlerRegistration;
}

/// A handler of this binary, and where it is declared.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct HandlerRegistration {
    /// The function, with its module.
    pub name: &'static str,
    /// The consumer it belongs to.
    pub consumer: &'static str,
    /// The consumer's mode.
    pub mode: Mode,
    /// The file it is declared in.
    pub file: &'static str,
    /// The line of its attribute.
    pub line: u32,
    options: HandlerOptions,
    make: fn() -> FunctionHandler,
    requires: fn() -> Vec<StateType>,
}

impl HandlerRegistration {
    /// What the macro writes.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(
        (name, file, line): (&'static str, &'static str, u32),
        consumer: &'static str,
        mode: Mode,
        options: HandlerOptions,
        make: fn() -> FunctionHandler,
        requires: fn() -> Vec<StateType>,
    ) -> Self {
        Self {
            name,
            consumer,
            mode,
            file,
            line,
            options,
            make,
            requires,
        }
    }

    /// Stands in for a handler that does not compile, so that one mistake is one error.
    #[doc(hidden)]
    pub const PLACEHOLDER: Self = Self::new(
        ("", "", 0),
        "default",
        Mode::Leased,
        HandlerOptions::new(),
        || unreachable!("a handler that does not compile"),
        Vec::new,
    );

    /// The event type it handles.
    #[must_use]
    pub fn event(&self) -> &'static str {
        self.event_info().name
    }

    /// The queue it handles messages of.
    #[must_use]
    pub fn queue(&self) -> Queue {
        self.event_info().queue
    }

    pub(crate) fn event_info(&self) -> EventInfo {
        (self.make)().event
    }

    pub(crate) fn handler(&self) -> AnyHandler {
        (self.make)().handler
    }

    pub(crate) fn requires(&self) -> Vec<StateType> {
        (self.requires)()
    }

    pub(crate) fn options(&self) -> &HandlerOptions {
        &self.options
    }

    /// The event types it handles: the event's name and its earlier names.
    pub(crate) fn event_types(&self) -> impl Iterator<Item = &'static str> {
        let event = self.event_info();
        [event.name]
            .into_iter()
            .chain(event.aliases.iter().copied())
    }

    /// Where it is declared, in words.
    pub(crate) fn declared_at(&self) -> String {
        format!("`{}` ({}:{})", self.name, self.file, self.line)
    }
}

impl fmt::Debug for HandlerRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerRegistration")
            .field("name", &self.name)
            .field("event", &self.event())
            .field("queue", &self.queue().name())
            .field("consumer", &self.consumer)
            .field("mode", &self.mode)
            .field("file", &self.file)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// What an attribute says about its handler. The rest has default values.
#[doc(hidden)]
#[derive(Clone, Copy, Default)]
pub struct HandlerOptions {
    pub(crate) batch: Option<u32>,
    pub(crate) concurrency: Option<u32>,
    pub(crate) lease: Option<LeaseConfig>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) from_earliest: bool,
}

impl HandlerOptions {
    /// Default values.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            batch: None,
            concurrency: None,
            lease: None,
            retry: None,
            timeout: None,
            from_earliest: false,
        }
    }

    #[must_use]
    pub const fn batch(mut self, messages: u32) -> Self {
        self.batch = Some(messages);
        self
    }

    #[must_use]
    pub const fn concurrency(mut self, keys: u32) -> Self {
        self.concurrency = Some(keys);
        self
    }

    #[must_use]
    pub const fn lease(mut self, millis: u64, headroom_millis: u64) -> Self {
        self.lease = Some(LeaseConfig {
            duration: Duration::from_millis(millis),
            headroom: Duration::from_millis(headroom_millis),
        });
        self
    }

    #[must_use]
    pub const fn retry(
        mut self,
        max_attempts: u32,
        base_millis: u64,
        max_millis: u64,
        jitter: bool,
    ) -> Self {
        self.retry = Some(RetryPolicy {
            max_attempts,
            base: Duration::from_millis(base_millis),
            max: Duration::from_millis(max_millis),
            jitter,
        });
        self
    }

    #[must_use]
    pub const fn timeout(mut self, millis: u64) -> Self {
        self.timeout = Some(Duration::from_millis(millis));
        self
    }

    #[must_use]
    pub const fn from_earliest(mut self) -> Self {
        self.from_earliest = true;
        self
    }
}

inventory::collect!(HandlerRegistration);

/// Every handler linked into this binary, by name.
pub(super) fn handlers() -> Vec<HandlerRegistration> {
    let mut handlers: Vec<_> = inventory::iter::<HandlerRegistration>().copied().collect();
    handlers.sort_by_key(|handler| (handler.name, handler.file, handler.line));
    handlers
}
