//! Lists of `name = value`, as in `#[outbox_event(queue = "orders", partitions = 4)]`.
//!
//! Knows the form of such a list and which names are allowed in it. Other modules
//! know what the values mean. A broken entry does not hide its neighbours.

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
    /// Those that are lists themselves, each with an example: `retry(base = "1s")`.
    pub(crate) lists: &'static [(&'static str, &'static str)],
    /// Values that users may write without their option: `leased` of `mode`.
    pub(crate) words: &'static [(&'static str, &'static str)],
    /// An example of an entry, to show when something is no entry.
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
    value: Option<Value>,
}

enum Value {
    Expr(Expr),
    List(TokenStream),
}

impl Options {
    pub(crate) fn new(spec: &'static Spec) -> Self {
        Self {
            spec,
            entries: Vec::new(),
            puzzling: false,
        }
    }

    /// Gives up on something that is no list; that has been reported.
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
        match self.entry(option)?.value.as_ref()? {
            Value::Expr(value) => Some(value),
            Value::List(_) => None,
        }
    }

    /// The tokens of an option that is a list.
    pub(crate) fn list(&self, option: &str) -> Option<&TokenStream> {
        match self.entry(option)?.value.as_ref()? {
            Value::List(tokens) => Some(tokens),
            Value::Expr(_) => None,
        }
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
        // `crate` is a keyword. What a user believes to be an option may be one too.
        let Ok(name) = input.call(Ident::parse_any) else {
            self.puzzling = true;
            let Spec { host, example, .. } = self.spec;
            errors.at(
                input.span(),
                format!("expected an option of {host}, such as `{example}`"),
            );
            return skip_entry(input);
        };
        if self.is_bare_word(&name, input, errors) {
            return;
        }
        let lists = self.spec.lists.iter();
        let value = if let Some((_, example)) = lists.clone().find(|(list, _)| name == list) {
            parse_list(&name, example, input, errors).map(Value::List)
        } else {
            parse_value(&name, input, errors).map(Value::Expr)
        };
        self.add(name, value, errors);
    }

    /// Whether it is a value without its option, which counts as given then.
    fn is_bare_word(&mut self, name: &Ident, input: ParseStream<'_>, errors: &mut Errors) -> bool {
        let is_bare = input.is_empty() || input.peek(Token![,]);
        let words = self.spec.words.iter();
        let Some((word, option)) = words.clone().find(|(word, _)| is_bare && name == word) else {
            return false;
        };
        errors.at(name.span(), format!("write `{option} = {word}`"));
        self.entries.push(Entry {
            name: name.clone(),
            option,
            value: None,
        });
        true
    }

    fn add(&mut self, name: Ident, value: Option<Value>, errors: &mut Errors) {
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
                // Counts as given: an error that it is missing would be a second one.
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
    // On a fork: syn does not specify how far a failed attempt reads.
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

fn parse_list(
    name: &Ident,
    example: &str,
    input: ParseStream<'_>,
    errors: &mut Errors,
) -> Option<TokenStream> {
    let parse = |input: ParseStream<'_>| {
        let content;
        syn::parenthesized!(content in input);
        content.parse()
    };
    if input.peek(syn::token::Paren)
        && let Ok(tokens) = parse(input)
    {
        return Some(tokens);
    }
    errors.at(
        name.span(),
        format!("`{name}` is a list: write `{name}({example})`"),
    );
    skip_entry(input);
    None
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
        options: &["queue", "partitions", "crate", "retry"],
        lists: &[("retry", "base = 1")],
        words: &[("four", "partitions")],
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
            "retry",
            "retry = 4",
            "retry()()",
            "r#partition = 4",
        ] {
            let (options, errors) = read(&format!("{nonsense}, queue = \"orders\""));
            assert!(!errors.is_empty(), "{nonsense}");
            assert!(options.value("queue").is_some(), "{nonsense}");
        }
    }

    #[test]
    fn a_list_within_the_list_is_given_as_it_is() {
        let (options, errors) = read("retry(a = 1, b), queue = A");
        assert!(errors.is_empty());
        let inner = options.list("retry").map(ToString::to_string);
        assert_eq!(inner.as_deref(), Some("a = 1 , b"));
        assert!(options.value("retry").is_none() && options.value("queue").is_some());
    }

    #[test]
    fn a_value_without_its_option_is_not_missing_as_well() {
        let (options, errors) = read("four, queue = A");
        assert!(!errors.is_empty() && !options.lacks("partitions"));
        assert!(options.value("queue").is_some());
    }

    #[test]
    fn a_misspelt_option_is_not_missing_as_well() {
        assert!(!read("partition = 4").0.lacks("partitions"));
        assert!(read("retries = 4").0.lacks("partitions"));
    }
}
