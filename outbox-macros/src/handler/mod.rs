//! `#[outbox_handler]`: an async function becomes a handler.
//!
//! [`parse`] reads the function and its options, [`model`] holds every rule
//! ([`signature`] those of arguments), and [`expand`] writes the code. A mistake in
//! the first two leads to [`crate::fallback`] instead. The compiler checks that a type
//! is an event, an extractor or an outcome, and its error is at that type.

mod expand;
mod model;
mod parse;
mod settings;
mod signature;
#[cfg(test)]
mod snapshots;

pub(crate) use expand::marker;
pub(crate) use parse::Input;

use crate::diag::Errors;
use crate::fallback;
use model::Model;
use proc_macro2::TokenStream;
use quote::quote;

/// The function as it was, followed by what is generated for it.
pub(crate) fn attribute(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let Some(input) = parse::attribute(args, item.clone(), &mut errors) else {
        return quote!(#item #errors);
    };
    let generated = match Model::check(&input, &mut errors) {
        Some(model) if errors.is_empty() => expand::expand(&model),
        _ => fallback::handler(&input, &errors),
    };
    quote!(#item #generated)
}
