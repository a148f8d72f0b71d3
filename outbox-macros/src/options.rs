//! Lists of `name = value`, as in `#[outbox_event(queue = "orders", partitions = 4)]`.
//!
//! Knows the form of such a list and which names are allowed in it; what the
//! values mean is for others. A broken entry does not hide its neighbours.

use crate::diag::{Errors, did_you_mean, list};
use proc_macro2::{TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::{Expr, Ident, Token};

/// A macro, as its messages call it, and the options it has.
pub(crate) struct Spec {
    /// With its punctuation: "`#[outbox_event]`".
    pub(crate) host: &'static str,
    pub(crate) options: &'static [&'static str],
    /// An entry to show when something is not one.
    pub(crate) example: &'static str,
}

/// The entries of a list, each with an allowed name and given once.
pub(crate) struct Options {
    spec: &'static Spec,
    entries: Vec<Entry>,
    /// Something in the list could have been any option.
    puzzling: bool,
}

struct Entry {
    name: Ident,
    option: &'static str,
    /// `None` if the value cannot be read; that has been reported.
    value: Option<Expr>,
}

impl Options {
    pub(crate) fn new(spec: &'static Spec) -> Self {
        Self {
            spec,
            entries: Vec::new(),
            puzzling: false,
        }
    }

    /// Gives up on a list that is none; that has been reported.
    pub(crate) fn give_up(&mut self) {
        self.puzzling = true;
    }

    /// Adds the entries of a list.
    pub(crate) fn read(&mut self, tokens: TokenStream, errors: &mut Errors) {
        let parsed = (|input: ParseStream<'_>| {
            self.parse(input, errors);
            Ok(())
        })
        .parse2(tokens);
        if let Err(error) = parsed {
            self.puzzling = true;
            errors.push(error);
        }
    }

    /// Adds the entries of a list, to the end of `input`.
    pub(crate) fn parse(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        while !input.is_empty() {
            self.parse_entry(input, errors);
            parse_separator(input, errors);
        }
    }

    /// The value of an option, if it is given and can be read.
    pub(crate) fn value(&self, option: &str) -> Option<&Expr> {
        self.entry(option)?.value.as_ref()
    }

    /// The name of an option as it stands in the list.
    pub(crate) fn name(&self, option: &str) -> Option<&Ident> {
        self.entry(option).map(|entry| &entry.name)
    }

    /// Whether an option is certainly not there: neither given nor attempted.
    pub(crate) fn lacks(&self, option: &str) -> bool {
        !self.puzzling && self.entry(option).is_none()
    }

    fn entry(&self, option: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.option == option)
    }

    fn parse_entry(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        // `crate` is a keyword, and so may be what somebody thinks is an option.
        let Ok(name) = input.call(Ident::parse_any) else {
            self.puzzling = true;
            let Spec { host, example, .. } = self.spec;
            errors.at(
                input.span(),
                format!("expected an option of {host}, such as `{example}`"),
            );
            return skip_entry(input);
        };
        let value = parse_value(&name, input, errors);
        self.add(name, value, errors);
    }

    fn add(&mut self, name: Ident, value: Option<Expr>, errors: &mut Errors) {
        let given = name.unraw().to_string();
        let Spec { host, options, .. } = self.spec;
        if let Some(option) = options.iter().copied().find(|option| *option == given) {
            if let Some(first) = self.name(option) {
                errors.at(name.span(), format!("`{option}` is given twice"));
                errors.at(first.span(), format!("`{option}` is first given here"));
                return;
            }
            return self.entries.push(Entry {
                name,
                option,
                value,
            });
        }
        match did_you_mean(&given, options.iter().copied()) {
            Some(option) => {
                errors.at(
                    name.span(),
                    format!("`{given}` is not an option of {host}; did you mean `{option}`?"),
                );
                // Counts as given: that it is missing would be a second complaint.
                if self.entry(option).is_none() {
                    self.entries.push(Entry {
                        name,
                        option,
                        value: None,
                    });
                }
            }
            None => errors.at(
                name.span(),
                format!(
                    "`{given}` is not an option of {host}; the options are {}",
                    list(options)
                ),
            ),
        }
    }
}

/// An expression without the parentheses around it, and without the invisible
/// ones that `macro_rules!` puts around its `$variables`.
pub(crate) fn peel(mut value: &Expr) -> &Expr {
    loop {
        value = match value {
            Expr::Group(group) => &group.expr,
            Expr::Paren(paren) => &paren.expr,
            _ => return value,
        };
    }
}

fn parse_value(name: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> Option<Expr> {
    if !input.peek(Token![=]) || input.peek(Token![==]) || input.peek(Token![=>]) {
        errors.at(name.span(), no_value(name));
        skip_entry(input);
        return None;
    }
    input.parse::<Token![=]>().ok()?;
    if input.is_empty() || input.peek(Token![,]) {
        errors.at(name.span(), no_value(name));
        return None;
    }
    // On a fork: how far a failed attempt reads is not specified.
    let ahead = input.fork();
    match ahead.parse() {
        Ok(value) => {
            input.advance_to(&ahead);
            Some(value)
        }
        Err(error) => {
            errors.push(error);
            skip_entry(input);
            None
        }
    }
}

fn no_value(name: &Ident) -> String {
    format!("expected a value: write `{name} = ..`")
}

fn parse_separator(input: ParseStream<'_>, errors: &mut Errors) {
    if input.is_empty() || input.parse::<Token![,]>().is_ok() {
        return;
    }
    errors.at(input.span(), "expected `,` between two options");
    if input.peek(Token![;]) {
        let _ = input.parse::<Token![;]>();
    } else if !(input.peek(Ident::peek_any) && input.peek2(Token![=])) {
        skip_entry(input);
        let _ = input.parse::<Token![,]>();
    }
}

/// Moves on to the next `,` outside of brackets.
fn skip_entry(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        if input.parse::<TokenTree>().is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SPEC: Spec = Spec {
        host: "`#[outbox_event]`",
        options: &["queue", "partitions", "crate"],
        example: "queue = \"orders\"",
    };

    fn read(list: &str) -> (Options, Errors) {
        let (mut options, mut errors) = (Options::new(&SPEC), Errors::default());
        options.read(list.parse().expect("tokens"), &mut errors);
        (options, errors)
    }

    #[test]
    fn a_list_is_read_in_any_order_with_or_without_a_last_comma() {
        for list in [
            "queue = A, crate = bus",
            "crate = bus, queue = a::<B, C>(),",
        ] {
            let (options, errors) = read(list);
            assert!(errors.is_empty(), "{list}");
            assert!(options.value("queue").is_some() && options.value("crate").is_some());
            assert!(options.lacks("partitions"));
        }
    }

    #[test]
    fn nonsense_is_an_error_and_hides_no_neighbour() {
        for nonsense in [
            ",",
            "=",
            "= 4",
            "7",
            "\"a\"",
            "()",
            "partitions",
            "partitions =",
            "partitions 4",
            "partitions == 4",
            "partitions => 4",
            "partitions = =",
            "partitions = if",
            "partitions(4)",
            "partitions: 4",
            "partitions = 4 5",
            "self = 4",
            "r#partition = 4",
        ] {
            let (options, errors) = read(&format!("{nonsense}, queue = \"orders\""));
            assert!(!errors.is_empty(), "{nonsense}");
            assert!(options.value("queue").is_some(), "{nonsense}");
        }
    }

    #[test]
    fn a_misspelt_option_is_not_missing_as_well() {
        assert!(!read("partition = 4").0.lacks("partitions"));
        assert!(read("retries = 4").0.lacks("partitions"));
    }
}
