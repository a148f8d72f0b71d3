//! Events, queues, consumers and handlers together, and the contradictions between them.

use super::events::{EventRegistration, events};
use super::handlers::{HandlerRegistration, handlers};
use crate::handler::Mode;
use crate::queue::Queue;
use std::collections::{BTreeMap, BTreeSet};

/// Everything the macros registered in this binary. See [`registry`].
#[derive(Clone, Debug)]
pub struct Registry {
    events: Vec<&'static EventRegistration>,
    handlers: Vec<HandlerRegistration>,
}

/// A consumer, as its handlers describe it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// Its queue.
    pub queue: Queue,
    /// Its name.
    pub name: &'static str,
    /// Its mode.
    pub mode: Mode,
    /// Its handlers, by name.
    pub handlers: Vec<HandlerRegistration>,
}

/// Every event and handler linked into this binary, for tests and tools.
#[must_use]
pub fn registry() -> Registry {
    let mut events: Vec<_> = events().collect();
    events.sort_by_key(|event| (event.queue.name().to_owned(), event.name, event.rust_type));
    Registry {
        events,
        handlers: handlers(),
    }
}

impl Registry {
    /// The events, by queue and name.
    #[must_use]
    pub fn events(&self) -> &[&'static EventRegistration] {
        &self.events
    }

    /// The handlers, by name.
    #[must_use]
    pub fn handlers(&self) -> &[HandlerRegistration] {
        &self.handlers
    }

    /// The queues that events go to, by name.
    #[must_use]
    pub fn queues(&self) -> Vec<Queue> {
        let queues = self.events.iter().map(|event| event.queue.clone());
        let by_name: BTreeMap<_, _> = queues
            .map(|queue| (queue.name().to_owned(), queue))
            .collect();
        by_name.into_values().collect()
    }

    /// The consumers, by queue and name.
    #[must_use]
    pub fn consumers(&self) -> Vec<ConsumerInfo> {
        let mut consumers: BTreeMap<(String, &str), ConsumerInfo> = BTreeMap::new();
        for handler in &self.handlers {
            let queue = handler.queue();
            consumers
                .entry((queue.name().to_owned(), handler.consumer))
                .or_insert_with(|| ConsumerInfo {
                    queue,
                    name: handler.consumer,
                    mode: handler.mode,
                    handlers: Vec::new(),
                })
                .handlers
                .push(*handler);
        }
        consumers.into_values().collect()
    }

    /// Everything in which events and handlers contradict each other, each with both places in the
    /// source. `start()` reports the same.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.contradictions();
        problems.extend(disagreements(&self.declarations()));
        problems
    }

    /// All problems except different numbers of partitions, because those depend on builders too.
    pub(crate) fn contradictions(&self) -> Vec<String> {
        let mut problems = self.events_with_one_name();
        for consumer in self.consumers() {
            problems.extend(two_modes(&consumer));
            problems.extend(two_handlers(&consumer));
        }
        problems
    }

    /// The same events, with these handlers only.
    pub(crate) fn with_handlers(self, handlers: Vec<HandlerRegistration>) -> Self {
        Self { handlers, ..self }
    }

    /// Every queue an event names, and where.
    pub(crate) fn declarations(&self) -> Vec<(Queue, String)> {
        let events = self.events.iter();
        events
            .map(|event| (event.queue.clone(), event.declared_at()))
            .collect()
    }

    /// Events that no handler takes, of queues that have handlers. `others` adds handled types:
    /// queue and event type, with `None` for all types.
    pub(crate) fn unhandled(&self, others: Vec<(String, Option<String>)>) -> Vec<String> {
        let mut taken: BTreeSet<(String, Option<String>)> = others.into_iter().collect();
        for handler in &self.handlers {
            let queue = handler.queue().name().to_owned();
            let types = handler.event_types();
            taken.extend(types.map(|name| (queue.clone(), Some(name.to_owned()))));
        }
        let lost = |event: &&&EventRegistration| {
            let of_queue = |(queue, _): &&(String, _)| *queue == event.queue.name();
            let mut types = taken.iter().filter(of_queue).peekable();
            let takes = |name: &Option<String>| name.as_ref().is_none_or(|name| name == event.name);
            types.peek().is_some() && !types.any(|(_, name)| takes(name))
        };
        let events = self.events.iter().filter(lost);
        events
            .map(|event| {
                format!(
                    "event `{}` of queue `{}`, {}, has no handler: every consumer passes over it",
                    event.name,
                    event.queue.name(),
                    event.declared_at()
                )
            })
            .collect()
    }

    fn events_with_one_name(&self) -> Vec<String> {
        let mut seen: BTreeMap<(&str, &str), &EventRegistration> = BTreeMap::new();
        let mut problems = Vec::new();
        for event in &self.events {
            for name in event.names() {
                let queue = event.queue.name();
                if let Some(other) = seen.insert((queue, name), event) {
                    problems.push(format!(
                        "two events of queue `{queue}` are called `{name}`: {} and {}; give one \
                         another `name`",
                        other.declared_at(),
                        event.declared_at()
                    ));
                }
            }
        }
        problems
    }
}

fn two_modes(consumer: &ConsumerInfo) -> Option<String> {
    let other = consumer.handlers.iter().find(|h| h.mode != consumer.mode)?;
    let first = &consumer.handlers[0];
    Some(format!(
        "consumer `{}` of queue `{}` has two modes: {} by {}, {} by {}; give one of them another \
         `consumer`",
        consumer.name,
        consumer.queue.name(),
        first.mode,
        first.declared_at(),
        other.mode,
        other.declared_at()
    ))
}

fn two_handlers(consumer: &ConsumerInfo) -> Vec<String> {
    let mut seen: BTreeMap<&str, &HandlerRegistration> = BTreeMap::new();
    let mut problems = Vec::new();
    for handler in &consumer.handlers {
        for name in handler.event_types() {
            if let Some(other) = seen.insert(name, handler) {
                problems.push(format!(
                    "consumer `{}` of queue `{}` has two handlers of `{name}`: {} and {}; give one \
                     of them another `consumer`",
                    consumer.name,
                    consumer.queue.name(),
                    other.declared_at(),
                    handler.declared_at()
                ));
                break;
            }
        }
    }
    problems
}

/// Queues that are declared with different numbers of partitions, and where.
pub(crate) fn disagreements(declarations: &[(Queue, String)]) -> Vec<String> {
    let mut first: BTreeMap<&str, (&Queue, &str)> = BTreeMap::new();
    let mut found = Vec::new();
    for (queue, place) in declarations {
        let (other, elsewhere) = first.entry(queue.name()).or_insert((queue, place));
        let (a, b) = (other.partitions(), queue.partitions());
        if a != b {
            let name = queue.name();
            found.push(format!(
                "queue `{name}`: {a} partitions by {elsewhere}, {b} by {place}"
            ));
        }
    }
    found
}
