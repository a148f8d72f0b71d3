//! From what an operator asks for to the condition of a statement.

use crate::database::statement::{Composed, Statement};
use sea_orm::Value;

/// Which letters are meant: those that fulfil everything that is said.
#[derive(Clone, Copy, Default)]
pub(crate) struct LetterFilter<'f> {
    pub(crate) ids: Option<&'f [i64]>,
    pub(crate) queue: Option<&'f str>,
    pub(crate) consumer: Option<&'f str>,
    pub(crate) event_type: Option<&'f str>,
    /// One of these types of a queue.
    pub(crate) types_of_queue: Option<(&'f str, &'f [&'static str])>,
    pub(crate) key: Option<&'f [u8]>,
    pub(crate) status: Option<&'f str>,
    pub(crate) failed_after_us: Option<i64>,
    pub(crate) failed_before_us: Option<i64>,
    pub(crate) reason_contains: Option<&'f str>,
}

/// A condition in the words of statements, and its values.
pub(super) struct Condition {
    text: String,
    values: Vec<(String, Value)>,
}

impl Condition {
    pub(super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: Vec::new(),
        }
    }

    /// Adds a clause with a parameter of that name.
    pub(super) fn and(&mut self, clause: &str, name: &str, value: impl Into<Value>) {
        self.and_text(clause);
        self.values.push((name.to_owned(), value.into()));
    }

    fn and_text(&mut self, clause: &str) {
        self.text.push_str(" AND ");
        self.text.push_str(clause);
    }

    /// Adds what a filter says.
    pub(super) fn and_filter(&mut self, filter: &LetterFilter<'_>) {
        if let Some(ids) = filter.ids {
            self.and_ids(ids);
        }
        if let Some(queue) = filter.queue {
            self.and("queue = $queue", "queue", queue);
        }
        if let Some(consumer) = filter.consumer {
            self.and("consumer = $consumer", "consumer", consumer);
        }
        if let Some(event_type) = filter.event_type {
            self.and("event_type = $event_type", "event_type", event_type);
        }
        if let Some((queue, types)) = filter.types_of_queue {
            self.and("queue = $type_queue", "type_queue", queue);
            self.and_types(types);
        }
        if let Some(key) = filter.key {
            self.and("{key} = $key", "key", key.to_vec());
        }
        if let Some(status) = filter.status {
            self.and("status = $status", "status", status);
        }
        if let Some(time) = filter.failed_after_us {
            self.and("{us failed_at} >= $failed_after", "failed_after", time);
        }
        if let Some(time) = filter.failed_before_us {
            self.and("{us failed_at} < $failed_before", "failed_before", time);
        }
        let text = filter.reason_contains.unwrap_or_default();
        if !text.is_empty() {
            // What every engine understands in the same way: case counts, and no
            // character has a meaning of its own.
            self.and(
                "LENGTH(REPLACE(reason, $text, '')) < LENGTH(reason)",
                "text",
                text.replace('\0', "\u{fffd}"),
            );
        }
    }

    fn and_types(&mut self, types: &[&'static str]) {
        let names: Vec<String> = (0..types.len())
            .map(|number| format!("type_{number}"))
            .collect();
        let parameters: Vec<String> = names.iter().map(|name| format!("${name}")).collect();
        self.and_text(&format!("event_type IN ({})", parameters.join(", ")));
        let values = types.iter().map(|name| Value::from(*name));
        self.values.extend(names.into_iter().zip(values));
    }

    pub(super) fn and_ids(&mut self, ids: &[i64]) {
        // No id is 0, and an empty list is not SQL.
        let ids = ids.iter().chain(&[0]);
        let ids: Vec<String> = ids.map(i64::to_string).collect();
        self.and_text(&format!("id IN ({})", ids.join(",")));
    }

    /// A statement with this in the place of `{condition}`.
    pub(super) fn of_statement(self, statement: &Statement) -> Composed<'_> {
        statement.with_condition(self.text, self.values)
    }
}
