//! The one rule for names of queues, consumers and event types.

/// The longest name, in bytes.
pub const MAX_NAME_LEN: usize = 128;

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` cannot be the name of {what}: use 1 to 128 letters, digits, `.`, `_` or `-` (ASCII)"
)]
pub struct InvalidName {
    /// What the name was for: "a queue", "an event type" ...
    pub what: &'static str,
    /// The name given, shortened if it is very long.
    pub name: String,
}

/// Whether `name` is 1 to 128 ASCII letters, digits, `.`, `_` or `-`.
#[must_use]
pub const fn is_valid_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_NAME_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !(bytes[i].is_ascii_alphanumeric() || matches!(bytes[i], b'.' | b'_' | b'-')) {
            return false;
        }
        i += 1;
    }
    true
}

/// Checks a name given at run time.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), InvalidName> {
    if is_valid_name(name) {
        return Ok(());
    }
    Err(InvalidName {
        what,
        name: name.chars().take(MAX_NAME_LEN + 1).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_digits_dots_underscores_and_hyphens_are_a_name() {
        for good in ["a", "Order.Created_v2-x", "0", &"x".repeat(128)] {
            assert!(is_valid_name(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "größe", "a\0", &"x".repeat(129)] {
            assert!(!is_valid_name(bad), "{bad}");
        }
    }
}
