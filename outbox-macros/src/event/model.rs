//! The rules of an event, one function each. All of them are asked, so that all
//! mistakes are reported at once.

use super::key::{self, Key};
use super::parse::Input;
use crate::diag::Errors;
use crate::options::peel;
use crate::paths::{as_written, ends, located_at, parenthesized};
use crate::{name, partitions, paths};
use proc_macro2::{Literal, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use std::collections::HashSet;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, Expr, ExprLit, GenericParam, Ident, Lit, LitStr, Path, Visibility};

/// 16 MiB: an outbox carries events, not files.
const MAX_PAYLOAD_LIMIT: usize = 16 * 1024 * 1024;

/// An event that keeps every rule.
pub(super) struct Model<'a> {
    pub(super) krate: Path,
    pub(super) vis: &'a Visibility,
    pub(super) ident: &'a Ident,
    pub(super) name: LitStr,
    pub(super) aliases: Vec<LitStr>,
    /// An expression of type `Queue`.
    pub(super) queue: TokenStream,
    pub(super) key: Option<Key>,
    /// An expression of type `usize`.
    pub(super) max_payload: Option<TokenStream>,
}

impl<'a> Model<'a> {
    /// Asks every rule. `None` only if something was reported.
    pub(super) fn check(input: &'a Input, errors: &mut Errors) -> Option<Self> {
        check_shape(input, errors);
        let krate = paths::krate(&input.options, errors);
        let queue = queue(input, errors);
        let name = event_name(input, errors);
        let aliases = aliases(input, name.as_ref(), errors);
        let key = key::read(input, errors);
        let max_payload = max_payload(input, errors);
        Some(Self {
            krate,
            vis: &input.item.vis,
            ident: &input.item.ident,
            name: name?,
            aliases,
            queue: queue?,
            key,
            max_payload,
        })
    }
}

/// An event is one type that owns its data.
fn check_shape(input: &Input, errors: &mut Errors) {
    let host = input.host;
    if let Data::Union(data) = &input.item.data {
        errors.at(
            data.union_token.span,
            "an event is a struct or an enum: a union cannot be written as JSON",
        );
    }
    for param in &input.item.generics.params {
        match param {
            GenericParam::Lifetime(param) => errors.on(
                &param.lifetime,
                "an event owns its data, it is read long after it was written: use `String` \
                 instead of `&str`, `Vec<T>` instead of `&[T]`",
            ),
            GenericParam::Type(param) => errors.on(&param.ident, not_generic(host)),
            GenericParam::Const(param) => errors.on(&param.ident, not_generic(host)),
        }
    }
}

fn not_generic(host: &str) -> String {
    format!(
        "an event cannot be generic, its name stands for one type: put {host} on a type \
         without parameters"
    )
}

fn queue(input: &Input, errors: &mut Errors) -> Option<TokenStream> {
    let options = &input.options;
    let Some(value) = options.value("queue") else {
        if options.lacks("queue") {
            errors.at(input.list, format!(
                "{} needs a queue: write `queue = \"orders\"` (a name) or `queue = Orders` (a type declared with `outbox::queue!`)",
                input.host
            ));
        }
        partitions(input, errors);
        return None;
    };
    if let Some(literal) = name::string(value) {
        let name = name::read("a queue", literal, errors);
        let partitions = partitions(input, errors);
        if options.lacks("partitions") {
            errors.on(
                literal,
                "a queue given by name needs its number of partitions: write `partitions = 4` (1, 2, 4, 8, 16, 32 or 64)",
            );
        }
        let (name, partitions) = (name?, partitions?);
        return Some(quote!(__outbox::Queue::of(#name, #partitions)));
    }
    let Expr::Path(path) = peel(value) else {
        errors.on(
            value,
            "`queue` is a name, `queue = \"orders\"`, or a type declared with `outbox::queue!`, `queue = Orders`",
        );
        return None;
    };
    if let Some(given) = options.name("partitions") {
        errors.at(
            given.span(),
            format!(
                "the queue type `{}` says how many partitions there are: leave `partitions` out",
                as_written(path)
            ),
        );
    }
    let span = located_at(path.span());
    Some(quote_spanned!(span=> <#path as __outbox::QueueType>::QUEUE))
}

fn partitions(input: &Input, errors: &mut Errors) -> Option<TokenStream> {
    partitions::read(input.options.value("partitions")?, errors)
}

fn event_name(input: &Input, errors: &mut Errors) -> Option<LitStr> {
    let ident = &input.item.ident;
    if let Some(value) = input.options.value("name") {
        let Some(literal) = name::string(value) else {
            errors.on(
                value,
                "`name` is a string: write `name = \"order.created\"`",
            );
            return None;
        };
        return name::read("an event type", literal, errors);
    }
    let default = ident.unraw().to_string();
    // A user who wrote `name` wrongly did not want the default.
    if input.options.lacks("name") && name::check("an event type", &default).is_err() {
        errors.on(
            ident,
            format!(
                "`{default}` cannot be the name of an event type: write `name = \"..\"`, with at \
                 most 128 ASCII letters, digits, `.`, `_` or `-`"
            ),
        );
        return None;
    }
    Some(LitStr::new(&default, ident.span()))
}

fn aliases(input: &Input, name: Option<&LitStr>, errors: &mut Errors) -> Vec<LitStr> {
    let Some(value) = input.options.value("aliases") else {
        return Vec::new();
    };
    let Expr::Array(array) = peel(value) else {
        errors.on(
            value,
            "`aliases` is a list of strings: write `aliases = [\"OrderPlaced\"]`",
        );
        return Vec::new();
    };
    let name = name.map(LitStr::value);
    let mut seen = HashSet::new();
    let mut aliases = Vec::new();
    for element in &array.elems {
        let Some(literal) = name::string(element) else {
            errors.on(
                element,
                "an alias is a string: write `aliases = [\"OrderPlaced\"]`",
            );
            continue;
        };
        let alias = literal.value();
        if name.as_ref() == Some(&alias) {
            errors.on(
                literal,
                format!("`{alias}` is the event's name already: leave the alias out"),
            );
        } else if !seen.insert(alias.clone()) {
            errors.on(literal, format!("the alias `{alias}` is given twice"));
        } else {
            aliases.extend(name::read("an event type", literal, errors));
        }
    }
    aliases
}

fn max_payload(input: &Input, errors: &mut Errors) -> Option<TokenStream> {
    let value = input.options.value("max_payload")?;
    let limit = MAX_PAYLOAD_LIMIT;
    match peel(value) {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => match number.base10_parse::<usize>() {
            Ok(bytes) if (1..=limit).contains(&bytes) => {
                Some(Literal::usize_unsuffixed(bytes).into_token_stream())
            }
            _ => {
                errors.on(
                    number,
                    format!(
                        "`max_payload` is 1 to {limit} bytes (16 MiB), not {}",
                        number.base10_digits()
                    ),
                );
                None
            }
        },
        Expr::Lit(other) => {
            errors.on(
                other,
                "`max_payload` is a number of bytes: write `max_payload = 131072`",
            );
            None
        }
        constant => {
            let (first, last) = ends(constant);
            let bytes = parenthesized(constant.to_token_stream(), last);
            Some(quote_spanned!(first=> __outbox::max_payload #bytes))
        }
    }
}
