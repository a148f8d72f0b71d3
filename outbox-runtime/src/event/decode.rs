//! Decodes events from bytes, and explains why bytes cannot be decoded.

use crate::event::Event;
use serde_json::error::Category;

/// The bytes of a message are not the event that they should be. The error says where, but never
/// quotes the payload, which may be a secret. The decoder's own message may quote it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its payload is no `{event}`: {problem} at line {line} column {column}")]
#[non_exhaustive]
pub struct Undecodable {
    /// The event type.
    pub event: &'static str,
    /// The line in the payload, from 1.
    pub line: usize,
    /// The column in that line.
    pub column: usize,
    problem: String,
}

pub(crate) fn decode<E: Event>(payload: &[u8]) -> Result<E, Undecodable> {
    serde_json::from_slice(payload).map_err(|error| undecodable(E::NAME, &error))
}

fn undecodable(event: &'static str, error: &serde_json::Error) -> Undecodable {
    let text = error.to_string();
    // The name of a missing field comes from the program, not from the payload.
    let missing = text
        .strip_prefix("missing field `")
        .and_then(|rest| rest.split('`').next());
    Undecodable {
        event,
        line: error.line(),
        column: error.column(),
        problem: match (error.classify(), missing) {
            (Category::Data, Some(field)) => format!("field `{field}` is missing"),
            (Category::Data, None) => "the data has another shape".to_owned(),
            (Category::Eof, _) => "it ends too early".to_owned(),
            (Category::Syntax | Category::Io, _) => "it is not JSON".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Order {
        #[expect(dead_code)]
        id: i64,
    }

    #[test]
    fn what_cannot_be_decoded_is_explained_without_the_payload() {
        for (payload, told) in [
            (r#"{"id":"s3cret"}"#, "another shape at line 1 column 14"),
            (
                r#"{"s3cret":1}"#,
                "field `id` is missing at line 1 column 12",
            ),
            (r#"{"id":"s3cret"#, "ends too early at line 1 column 13"),
            ("s3cret", "not JSON at line 1 column 1"),
            ("", "ends too early at line 1 column 0"),
        ] {
            let error = serde_json::from_str::<Order>(payload).expect_err(payload);
            let text = undecodable("Order", &error).to_string();
            assert!(text.contains(told), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
}
