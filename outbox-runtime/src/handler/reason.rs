//! Reasons of failures, made short and safe to keep and to log.

/// The longest reason that is kept, in bytes.
const MAX_REASON: usize = 2_000;

/// Shortens the reason, and replaces the one character that PostgreSQL cannot keep.
pub(crate) fn bounded_reason(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON)].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_cut_between_characters_and_hold_no_nul() {
        assert_eq!(bounded_reason("a\0b"), "a\u{fffd}b");
        let long = bounded_reason(&format!("a{}", "é".repeat(5_000)));
        assert_eq!(long.len(), 1_999);
    }
}
