//! Reasons and keys as they are kept and logged: short, and safe to print.

/// The longest reason that is kept, in bytes.
const MAX_REASON: usize = 2_000;
/// How much of a key is logged, in bytes.
const MAX_KEY: usize = 64;

/// A reason, short enough, and without the one character PostgreSQL cannot keep.
pub(crate) fn bounded_reason(reason: &str) -> String {
    reason[..reason.floor_char_boundary(MAX_REASON)].replace('\0', "\u{fffd}")
}

/// A key for a log: its beginning, escaped.
pub(crate) fn shown_key(key: &[u8]) -> String {
    let shown = &key[..key.len().min(MAX_KEY)];
    let more = if shown.len() < key.len() { ".." } else { "" };
    format!("{}{more}", String::from_utf8_lossy(shown).escape_debug())
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

    #[test]
    fn a_logged_key_is_short_and_escaped() {
        assert_eq!(shown_key(b"acme/42"), "acme/42");
        assert_eq!(shown_key("größe".as_bytes()), "größe");
        assert_eq!(shown_key(b"a\n\"\x1b[31m"), "a\\n\\\"\\u{1b}[31m");
        assert_eq!(shown_key(&[b'k'; 1024]), format!("{}..", "k".repeat(64)));
    }
}
