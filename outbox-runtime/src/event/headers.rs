//! Headers of a message: their names, their limits, and how the database keeps them.
//!
//! Headers are checked when a message is enqueued, and not when it is read from the database. So a
//! message that was accepted once can be delivered and requeued, even if one of its names is
//! reserved since.

use std::collections::BTreeMap;
use std::fmt;

/// Headers of a message: names and values beside its payload, such as a trace id.
///
/// At most 64 headers. A name has 1 to 128 bytes without control characters. A value has at most
/// 4,096 bytes. All headers together have at most 16 KiB as JSON.
///
/// # Reserved names
///
/// Some names are reserved, in lower and upper case.
///
/// | name | set by | what it means |
/// |---|---|---|
/// | `traceparent`, `tracestate` | you | the trace that the message belongs to, as [W3C Trace Context] defines it |
/// | `correlation-id` | you | an id that all messages of one business process share |
/// | `content-type`, `causation-id`, `version`, and all that begin with `ce-` or `outbox-` | the outbox | for the outbox alone |
///
/// You may set the names of the first two rows. Give them this meaning and no other, and write them
/// in lower case: tools look for them. If you set a name of the last row, enqueueing fails with
/// [`InvalidHeader::Reserved`] before anything is written.
///
/// A handler that sends the headers of its message on takes
/// [`without_reserved`](Self::without_reserved), because a requeued message has a header of the
/// outbox.
///
/// [W3C Trace Context]: https://www.w3.org/TR/trace-context/
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(BTreeMap<String, String>);

impl Headers {
    /// No headers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a header, replacing one of the same name.
    pub fn insert(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// Takes a header away; returns the value it had.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy without the headers that only the outbox may set. A handler may send these headers on
    /// with another message.
    ///
    /// ```
    /// use outbox_runtime::{EnqueueOptions, Headers};
    ///
    /// fn sent_on(received: &Headers) -> EnqueueOptions {
    ///     EnqueueOptions::new().headers(received.without_reserved())
    /// }
    ///
    /// let received = Headers::from_iter([("tenant", "acme"), ("outbox-requeued-from", "7")]);
    /// assert_eq!(sent_on(&received).headers, Headers::from_iter([("tenant", "acme")]));
    /// ```
    #[must_use]
    pub fn without_reserved(&self) -> Self {
        let allowed = self.iter().filter(|(name, _)| !is_reserved(name));
        allowed.collect()
    }

    /// Decodes what is in the database. The outbox writes only maps of strings; anything else was
    /// written by another program and is left out.
    pub(crate) fn decode(json: &str) -> Self {
        Self(serde_json::from_str(json).unwrap_or_default())
    }

    /// The headers as the database keeps them, whether or not a producer may send them.
    pub(crate) fn to_json(&self) -> String {
        serde_json::Value::from_iter(self.iter()).to_string()
    }

    /// The headers as the database keeps them, after checking that a producer may send them. `None`
    /// for no headers.
    pub(crate) fn encode(&self) -> Result<Option<String>, InvalidHeader> {
        if self.is_empty() {
            return Ok(None);
        }
        if self.len() > 64 {
            return Err(InvalidHeader::TooMany { count: self.len() });
        }
        for (name, value) in self.iter() {
            if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
                let name = name.chars().take(129).collect();
                return Err(InvalidHeader::Name { name });
            }
            if is_reserved(name) {
                return Err(InvalidHeader::Reserved {
                    name: name.to_owned(),
                });
            }
            if value.len() > 4096 {
                return Err(InvalidHeader::Value {
                    name: name.to_owned(),
                    size: value.len(),
                });
            }
        }
        let json = self.to_json();
        if json.len() > 16 * 1024 {
            return Err(InvalidHeader::TooLarge { size: json.len() });
        }
        Ok(Some(json))
    }
}

/// Names that only the outbox sets.
const RESERVED_NAMES: [&str; 3] = ["content-type", "causation-id", "version"];
/// Names that begin like this are set only by the outbox, too.
const RESERVED_PREFIXES: [&str; 2] = ["ce-", "outbox-"];

/// Whether only the outbox may set the header. `traceparent`, `tracestate` and `correlation-id` are
/// not among them: their meaning is fixed, but users set them.
fn is_reserved(name: &str) -> bool {
    let begins_with = |prefix: &str| {
        let beginning = name.as_bytes().get(..prefix.len());
        beginning.is_some_and(|bytes| bytes.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    RESERVED_NAMES
        .iter()
        .any(|reserved| name.eq_ignore_ascii_case(reserved))
        || RESERVED_PREFIXES.into_iter().any(begins_with)
}

/// Values may be secrets: only the names are shown.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(headers: I) -> Self {
        let headers = headers.into_iter();
        Self(headers.map(|(n, v)| (n.into(), v.into())).collect())
    }
}

/// What is wrong with the headers of a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHeader {
    /// A bad name.
    #[error("`{}` cannot name a header: use 1 to 128 bytes without control characters", name.escape_debug())]
    Name {
        /// The name, shortened if it is very long.
        name: String,
    },
    /// A name that only the outbox sets.
    #[error(
        "header `{}` is reserved for the outbox: use another name, for example `x-{}`",
        name.escape_debug(),
        name.escape_debug()
    )]
    Reserved {
        /// The name.
        name: String,
    },
    /// A value that is too long.
    #[error("the value of header `{name}` has {size} bytes, the limit is 4096")]
    Value {
        /// The header's name.
        name: String,
        /// The length of its value.
        size: usize,
    },
    /// More than 64 headers.
    #[error("{count} headers, the limit is 64")]
    TooMany {
        /// How many there are.
        count: usize,
    },
    /// More than 16 KiB in all.
    #[error("the headers have {size} bytes as JSON, the limit is 16384")]
    TooLarge {
        /// Their size.
        size: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str) -> Result<Option<String>, InvalidHeader> {
        Headers::from_iter([(name, "v")]).encode()
    }

    #[test]
    fn a_name_of_the_outbox_is_refused_in_any_case() {
        for name in [
            "content-type",
            "Content-Type",
            "causation-id",
            "CAUSATION-ID",
            "version",
            "Version",
            "ce-",
            "ce-id",
            "CE-Source",
            "outbox-",
            "outbox-requeued-from",
            "Outbox-Anything",
        ] {
            let name = name.to_owned();
            assert_eq!(encoded(&name), Err(InvalidHeader::Reserved { name }));
        }
    }

    #[test]
    fn names_with_a_fixed_meaning_and_names_that_only_resemble_reserved_ones_may_be_set() {
        for name in [
            "traceparent",
            "tracestate",
            "correlation-id",
            "Correlation-Id",
            "x-version",
            "x-outbox-id",
            "versions",
            "schema-version",
            "ce",
            "center",
            "ce_id",
            "outbox",
            "outboxes",
            "c\u{e9}-",
            "outbox\u{2010}",
        ] {
            assert!(encoded(name).is_ok_and(|json| json.is_some()), "{name}");
        }
    }

    #[test]
    fn the_refusal_names_the_header_and_says_what_to_do() {
        let error = encoded("Content-Type").unwrap_err();
        assert_eq!(
            error.to_string(),
            "header `Content-Type` is reserved for the outbox: use another name, for example \
             `x-Content-Type`"
        );
    }

    #[test]
    fn a_copy_without_reserved_names_can_be_sent() {
        let received = Headers::from_iter([
            ("Ce-Id", "1"),
            ("correlation-id", "2"),
            ("outbox-requeued-from", "3"),
            ("tenant", "acme"),
        ]);
        let sent = received.without_reserved();
        assert_eq!(
            sent,
            Headers::from_iter([("correlation-id", "2"), ("tenant", "acme")])
        );
        assert!(sent.encode().is_ok());
    }

    #[test]
    fn reserved_names_in_the_database_are_read_and_written_as_they_are() {
        let json = r#"{"content-type":"text/plain","outbox-requeued-from":"7"}"#;
        assert_eq!(Headers::decode(json).to_json(), json);
    }
}
