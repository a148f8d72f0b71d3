//! Decides which of the handlers linked into the binary run here, and as which consumers.

use super::builder::{ConsumerSpec, OutboxBuilder, RouteSpec, WINDOW};
use super::problem::ConfigError;
use crate::registry::{
    ConsumerInfo, HandlerRegistration, OutboxHandler, Registry, disagreements, registry,
};
use std::collections::BTreeSet;

/// Which handlers a builder takes.
#[derive(Default)]
pub(super) struct Selection {
    without_discovery: bool,
    picked: Vec<HandlerRegistration>,
    /// The consumers to run; `None` for all.
    consumers: Option<BTreeSet<String>>,
    strict: bool,
    states_later: bool,
}

impl Selection {
    /// Skips the check for states. Nothing is delivered, so handlers need none.
    pub(super) fn states_are_given_later(&mut self) {
        self.states_later = true;
    }

    fn registry(&self) -> Registry {
        let registry = registry();
        let mut handlers = if self.without_discovery {
            Vec::new()
        } else {
            registry.handlers().to_vec()
        };
        for picked in &self.picked {
            let same = |other: &HandlerRegistration| other.declared_at() == picked.declared_at();
            if !handlers.iter().any(same) {
                handlers.push(*picked);
            }
        }
        registry.with_handlers(handlers)
    }

    fn runs(&self, consumer: &str) -> bool {
        let consumers = self.consumers.as_ref();
        consumers.is_none_or(|consumers| consumers.contains(consumer))
    }
}

impl OutboxBuilder {
    /// Takes only the handlers that are given with [`handler`](Self::handler),
    /// [`handlers`](Self::handlers) and [`queue`](Self::queue). Without this the builder takes
    /// every handler that is linked into the binary.
    pub fn without_discovery(mut self) -> Self {
        self.selection.without_discovery = true;
        self
    }

    /// Takes a handler. `H` is the type that `#[outbox_handler]` made beside the handler's
    /// function.
    pub fn handler<H: OutboxHandler>(self) -> Self {
        self.handlers([H::REGISTRATION])
    }

    /// Takes handlers: `.handlers(outbox::handlers![ship, book])`.
    pub fn handlers(mut self, handlers: impl IntoIterator<Item = HandlerRegistration>) -> Self {
        self.selection.picked.extend(handlers);
        self
    }

    /// Runs only these consumers in this process; others are left to other processes.
    pub fn consumers<I, T>(mut self, names: I) -> Self
    where
        I: IntoIterator<Item = T>,
        T: Into<String>,
    {
        self.selection.consumers = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Makes it an error if a queue with handlers has an event without a handler. Without this it
    /// is a warning in the log.
    pub fn strict(mut self) -> Self {
        self.selection.strict = true;
        self
    }

    /// Adds the consumers of discovered and picked handlers to those that were described by hand.
    /// Notes everything that does not fit together.
    pub(super) fn discover(&mut self) {
        let registry = self.selection.registry();
        let mut problems = registry.contradictions();
        let mut declarations = registry.declarations();
        declarations.extend(self.consumers.iter().map(|spec| {
            let place = format!("consumer `{}` of the builder", spec.name);
            (spec.queue.clone(), place)
        }));
        problems.extend(disagreements(&declarations));
        let unhandled = registry.unhandled(self.types_by_hand());
        if self.selection.strict {
            problems.extend(unhandled);
        } else {
            for event in unhandled {
                tracing::warn!("{event}");
            }
        }
        let discovered = registry.consumers();
        problems.extend(self.unknown_consumers(&discovered));
        let selection = &self.selection;
        self.consumers.retain(|spec| selection.runs(&spec.name));
        for consumer in discovered {
            if !self.selection.runs(consumer.name) {
                continue;
            }
            if !self.selection.states_later {
                problems.extend(self.missing_states(&consumer));
            }
            let usual = self.profile.processor.batch_size;
            let spec = ConsumerSpec::from_handlers(&consumer, usual);
            self.consumers.push(spec);
        }
        let problems = problems.into_iter().map(ConfigError::Invalid);
        self.problems.extend(problems);
    }

    /// Queue and event types of the consumers described by hand.
    fn types_by_hand(&self) -> Vec<(String, Option<String>)> {
        let mut types = Vec::new();
        for spec in &self.consumers {
            let queue = spec.queue.name();
            match spec.event_types() {
                None => types.push((queue.to_owned(), None)),
                Some(names) => {
                    types.extend(names.into_iter().map(|name| (queue.to_owned(), Some(name))));
                }
            }
        }
        types
    }

    fn unknown_consumers(&self, discovered: &[ConsumerInfo]) -> Vec<String> {
        let by_hand = self.consumers.iter().map(|spec| &*spec.name);
        let known: BTreeSet<&str> = by_hand
            .chain(discovered.iter().map(|consumer| consumer.name))
            .collect();
        let listed: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
        let consumers = match listed.as_slice() {
            [] => "there are none".to_owned(),
            names => format!("the consumers are {}", names.join(", ")),
        };
        let named = self.selection.consumers.iter().flatten();
        named
            .filter(|name| !known.contains(&***name))
            .map(|name| format!("no handler has consumer `{name}`; {consumers}"))
            .collect()
    }

    fn missing_states(&self, consumer: &ConsumerInfo) -> Vec<String> {
        let mut problems = Vec::new();
        for handler in &consumer.handlers {
            for state in handler.requires() {
                if !self.states.has(state.id) {
                    problems.push(format!(
                        "handler {} takes a state of type `{}`, which was not given: call \
                         `.state(..)` on the builder",
                        handler.declared_at(),
                        state.name
                    ));
                }
            }
        }
        problems
    }
}

impl ConsumerSpec {
    /// The consumer of these handlers. What handlers say about the consumer as a whole must suit
    /// each of them, so it gets their longest lease and their largest batch. A handler that says
    /// nothing about batches has batches of the `usual` size.
    fn from_handlers(consumer: &ConsumerInfo, usual: u32) -> Self {
        let options = || consumer.handlers.iter().map(HandlerRegistration::options);
        let leases = options().map(|options| options.lease.unwrap_or_default());
        let lease = leases.max_by_key(|lease| lease.duration);
        let batches = options().map(|options| options.batch.unwrap_or(usual));
        Self {
            queue: consumer.queue.clone(),
            name: consumer.name.to_owned(),
            mode: consumer.mode,
            lease: lease.unwrap_or_default(),
            batch: batches.max(),
            concurrency: options()
                .filter_map(|options| options.concurrency)
                .max()
                .unwrap_or(1),
            window: WINDOW,
            from_earliest: options().any(|options| options.from_earliest),
            routes: consumer
                .handlers
                .iter()
                .map(|handler| RouteSpec::of(handler, usual))
                .collect(),
        }
    }

    /// The event types it has handlers for; `None` for all.
    pub(super) fn event_types(&self) -> Option<BTreeSet<String>> {
        let mut types = BTreeSet::new();
        for route in &self.routes {
            types.extend(route.event_types.as_ref()?.iter().cloned());
        }
        Some(types)
    }
}

impl RouteSpec {
    fn of(handler: &HandlerRegistration, usual: u32) -> Self {
        let options = handler.options();
        Self {
            event_types: Some(handler.event_types().map(str::to_owned).collect()),
            handler: handler.handler(),
            retry: options.retry.unwrap_or_default(),
            batch: Some(options.batch.unwrap_or(usual)),
            timeout: options.timeout,
            name: Some(handler.name),
        }
    }
}
