//! From what an operator asks for to the condition of a statement.

use crate::database::sql::list;
use crate::operate::dead_letter::{DeadLetterFilter, DeadLetterScope};
use sea_orm::Value;
use std::time::{Duration, SystemTime};

/// A condition in the words of [`sql`](crate::database::sql), and its values in order.
#[derive(Default)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) values: Vec<Value>,
}

impl Condition {
    pub(super) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: Vec::new(),
        }
    }

    pub(super) fn and(&mut self, text: &str, value: impl Into<Value>) {
        self.and_text(text);
        self.values.push(value.into());
    }

    pub(super) fn and_text(&mut self, text: &str) {
        self.text.push_str(" AND ");
        self.text.push_str(text);
    }

    /// What a filter says, but for its limit and its cursor.
    pub(super) fn and_filter(&mut self, filter: &DeadLetterFilter) {
        if let Some(queue) = &filter.queue {
            self.and("queue = ?", queue.as_str());
        }
        if let Some(consumer) = &filter.consumer {
            self.and("consumer = ?", consumer.as_str());
        }
        if let Some(event_type) = &filter.event_type {
            self.and("event_type = ?", event_type.as_str());
        }
        if let Some(key) = &filter.key {
            self.and("{key} = ?", key.clone());
        }
        if let Some(status) = filter.status {
            self.and("status = ?", status.as_str());
        }
        if let Some(time) = filter.failed_after {
            self.and("{us(failed_at)} >= ?", micros_since_1970(time));
        }
        if let Some(time) = filter.failed_before {
            self.and("{us(failed_at)} < ?", micros_since_1970(time));
        }
        let text = filter.reason_contains.as_deref().unwrap_or_default();
        if !text.is_empty() {
            // What every engine understands in the same way: case counts, and no
            // character has a meaning of its own.
            let text = text.replace('\0', "\u{fffd}");
            self.and("LENGTH(REPLACE(reason, ?, '')) < LENGTH(reason)", text);
        }
        if let Some((queue, names)) = &filter.typed {
            self.and("queue = ?", queue.as_str());
            let places = vec!["?"; names.len()].join(", ");
            self.and_text(&format!("event_type IN ({places})"));
            self.values.extend(names.iter().map(|name| (*name).into()));
        }
    }

    pub(super) fn and_scope(&mut self, scope: &DeadLetterScope) {
        if let Some(ids) = &scope.ids {
            self.and_ids(ids);
        }
        self.and_filter(&scope.filter);
    }

    pub(super) fn and_ids(&mut self, ids: &[i64]) {
        // No id is 0, and an empty list is not SQL.
        let ids = ids.iter().copied().chain([0]);
        self.and_text(&format!("id IN ({})", list(ids)));
    }
}

fn micros_since_1970(time: SystemTime) -> i64 {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => micros(since),
        Err(before) => -micros(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_far_away_are_no_overflow() {
        let year = Duration::from_secs(365 * 24 * 3600);
        assert_eq!(micros_since_1970(SystemTime::UNIX_EPOCH), 0);
        let before = SystemTime::UNIX_EPOCH - Duration::from_micros(7);
        assert_eq!(micros_since_1970(before), -7);
        let far = SystemTime::UNIX_EPOCH.checked_add(year * 1_000_000);
        assert_eq!(far.map(micros_since_1970), Some(i64::MAX));
    }
}
