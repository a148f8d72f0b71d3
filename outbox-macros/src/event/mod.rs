//! `#[outbox_event]` and `#[derive(OutboxEvent)]`: two ways to write one thing.
//!
//! [`parse`] reads the item and its options, [`model`] holds every rule, and
//! [`expand`] writes the code. A mistake in the first two leads to
//! [`crate::fallback`] instead.

mod expand;
mod key;
mod methods;
mod model;
mod parse;
#[cfg(test)]
mod snapshots;

pub(crate) use methods::Methods;
pub(crate) use parse::Input;
#[cfg(test)]
pub(crate) use snapshots::check as check_snapshot;

use crate::diag::Errors;
use crate::fallback;
use model::Model;
use proc_macro2::TokenStream;
use quote::quote;

/// The item as it was, followed by what is generated for it.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let input = parse::attribute(args, item.clone(), &mut errors);
    let generated = generate(input, errors);
    quote!(#item #generated)
}

/// What is generated for the item.
pub(crate) fn derive(item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let input = parse::derive(item, &mut errors);
    generate(input, errors)
}

fn generate(input: Option<Input>, mut errors: Errors) -> TokenStream {
    let Some(input) = input else {
        return quote!(#errors);
    };
    match Model::check(&input, &mut errors) {
        Some(model) if errors.is_empty() => expand::expand(&model),
        _ => fallback::event(&input, &errors),
    }
}
