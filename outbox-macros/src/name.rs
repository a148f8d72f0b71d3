//! The rule for names of queues and event types.
//!
//! The same rule as `outbox::is_valid_name`, with which the runtime checks every name.
//! Here it also says what is wrong. A test compares the two.

use crate::diag::Errors;
use crate::options::peel;
use syn::{Expr, ExprLit, Lit, LitStr};

/// The longest name, in bytes; all of them are ASCII.
const MAX_LEN: usize = 128;

/// What is wrong with `name` as the name of `what` ("a queue"), if anything.
pub(crate) fn check(what: &str, name: &str) -> Result<(), String> {
    let forbidden = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    if name.is_empty() {
        Err(format!(
            "the name of {what} cannot be empty: use 1 to {MAX_LEN} ASCII letters, digits, `.`, `_` or `-`"
        ))
    } else if let Some(c) = name.chars().find(forbidden) {
        Err(format!(
            "`{}` is not allowed in the name of {what}: use ASCII letters, digits, `.`, `_` and `-`",
            c.escape_debug()
        ))
    } else if name.len() > MAX_LEN {
        Err(format!(
            "the name of {what} has at most {MAX_LEN} characters, this one has {}",
            name.len()
        ))
    } else {
        Ok(())
    }
}

/// The string literal that `value` is, if it is one.
pub(crate) fn string(value: &Expr) -> Option<&LitStr> {
    match peel(value) {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text),
        _ => None,
    }
}

/// Reads a string literal that names `what`.
pub(crate) fn read(what: &str, literal: &LitStr, errors: &mut Errors) -> Option<LitStr> {
    match check(what, &literal.value()) {
        Ok(()) => Some(literal.clone()),
        Err(message) => {
            errors.on(literal, message);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_is_the_one_of_the_runtime() {
        let long = ["x".repeat(128), "x".repeat(129)];
        let names = [
            "",
            "a",
            "Order.Created_v2-x",
            "0",
            "a b",
            "a/b",
            "größe",
            "a\0",
            "\"",
        ];
        for name in names.into_iter().chain(long.iter().map(String::as_str)) {
            let ok = check("a queue", name).is_ok();
            assert_eq!(ok, outbox::is_valid_name(name), "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_name_here_if_it_is_one_there(text in "\\PC{0,12}|[a-zA-Z0-9._-]{0,140}") {
            let ok = check("a queue", &text).is_ok();
            proptest::prop_assert_eq!(ok, outbox::is_valid_name(&text));
        }
    }
}
