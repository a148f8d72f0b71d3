//! Collecting what is wrong with an item, so that all of it is reported at once.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use std::fmt::Display;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Visibility};

/// The mistakes found so far, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    /// A mistake, underlined from the first to the last of `tokens`.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.push(syn::Error::new_spanned(tokens, message));
    }

    /// A mistake at a place.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.push(syn::Error::new(span, message));
    }

    /// A mistake that syn found.
    pub(crate) fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl ToTokens for Errors {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.as_ref().map(syn::Error::to_compile_error));
    }
}

/// The candidate that was probably meant, if one is close: at most a third of
/// the letters differ, as in rustc's own suggestions, or one begins with the other.
pub(crate) fn did_you_mean<'a>(
    given: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let given = given.to_lowercase();
    let limit = given.chars().count().max(3) / 3;
    let begins = |candidate: &str| {
        given.len() > 2 && (candidate.starts_with(&given) || given.starts_with(candidate))
    };
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&given, &candidate.to_lowercase());
            (distance, candidate)
        })
        .filter(|&(distance, candidate)| distance <= limit || begins(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `a`, `b` and `c`.
pub(crate) fn list(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// Reads the item that an attribute stands on; one of another kind is a mistake at
/// the keyword that says so.
pub(crate) fn item<T: Parse>(
    tokens: TokenStream,
    otherwise: &str,
    errors: &mut Errors,
) -> Option<T> {
    let item = syn::parse2(tokens.clone()).ok();
    if item.is_none() {
        errors.at(keyword(tokens), otherwise);
    }
    item
}

fn keyword(item: TokenStream) -> Span {
    let find = |input: ParseStream<'_>| {
        input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let span = input.span();
        input.parse::<TokenStream>()?;
        Ok(span)
    };
    find.parse2(item).unwrap_or_else(|_| Span::call_site())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        let options = ["queue", "partitions", "aliases", "max_payload"];
        for (given, meant) in [
            ("partition", Some("partitions")),
            ("Queue", Some("queue")),
            ("qeue", Some("queue")),
            ("alias", Some("aliases")),
            ("maxPayload", Some("max_payload")),
            ("retries", None),
            ("topic", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(given, options), meant, "{given}");
        }
    }

    #[test]
    fn names_are_listed_as_one_would_say_them() {
        assert_eq!(list(&[]), "");
        assert_eq!(list(&["a"]), "`a`");
        assert_eq!(list(&["a", "b", "c"]), "`a`, `b` and `c`");
    }
}
