//! What a handler becomes: a type that stands for it, and an entry in the list of
//! all handlers of the binary.

use super::model::Model;
use super::signature::{Arg, Form};
use crate::paths::{ends, located_at, parenthesized};
use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{Ident, Visibility};

pub(super) fn expand(model: &Model<'_>) -> TokenStream {
    let Model {
        krate,
        vis,
        function,
        handle,
        ..
    } = model;
    let name = function.unraw().to_string();
    let marker = marker(vis, handle, &name);
    let consumer = match &model.consumer {
        Some(name) => name.to_token_stream(),
        None => quote!("default"),
    };
    let mode = if model.transactional {
        quote!(Transactional)
    } else {
        quote!(Leased)
    };
    let (options, make, requires) = (options(model), make(model), requires(model));
    quote! {
        #marker

        const _: () = {
            use #krate::__private as __outbox;

            #[automatically_derived]
            #[allow(deprecated)]
            impl __outbox::OutboxHandler for #handle {
                const REGISTRATION: __outbox::HandlerRegistration =
                    __outbox::HandlerRegistration::new(
                        (
                            ::core::concat!(::core::module_path!(), "::", #name),
                            ::core::file!(),
                            ::core::line!(),
                        ),
                        #consumer,
                        __outbox::Mode::#mode,
                        #options,
                        || #make,
                        || #requires,
                    );
            }

            __outbox::inventory::submit! {
                <#handle as __outbox::OutboxHandler>::REGISTRATION
            }
        };
    }
}

/// The type beside the function. Rust keeps names of functions and of types apart, so
/// both can have the same name.
pub(crate) fn marker(vis: &Visibility, handle: &Ident, name: &str) -> TokenStream {
    let docs = format!(" The handler `{name}` as a type, to register it by hand.");
    quote! {
        #[doc = #docs]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #handle {}
    }
}

/// Only the options that the attribute gives.
fn options(model: &Model<'_>) -> TokenStream {
    let number = Literal::u64_unsuffixed;
    let mut options = quote!(__outbox::HandlerOptions::new());
    if let Some(batch) = model.batch.map(number) {
        options.extend(quote!(.batch(#batch)));
    }
    if let Some(keys) = model.concurrency.map(number) {
        options.extend(quote!(.concurrency(#keys)));
    }
    if let Some(lease) = &model.lease {
        let (duration, headroom) = (number(lease.duration), number(lease.headroom));
        options.extend(quote!(.lease(#duration, #headroom)));
    }
    if let Some(retry) = &model.retry {
        let (attempts, jitter) = (number(retry.attempts), retry.jitter);
        let (base, max) = (number(retry.base), number(retry.max));
        options.extend(quote!(.retry(#attempts, #base, #max, #jitter)));
    }
    if let Some(timeout) = model.timeout.map(number) {
        options.extend(quote!(.timeout(#timeout)));
    }
    if model.from_earliest {
        options.extend(quote!(.from_earliest()));
    }
    options
}

/// The handler: a closure that calls the function. Each type that must implement a trait
/// is named with its own span, so that the compiler's error is there.
fn make(model: &Model<'_>) -> TokenStream {
    let signature = &model.signature;
    let maker = match (model.transactional, signature.form, signature.in_message) {
        (false, Form::Each, false) => "leased_each",
        (false, Form::Each, true) => "leased_each_message",
        (false, Form::All | Form::Batch, false) => "leased_batch",
        (false, Form::All | Form::Batch, true) => "leased_batch_of_messages",
        (true, Form::Each, false) => "transactional_each",
        (true, Form::Each, true) => "transactional_each_message",
        (true, Form::All | Form::Batch, false) => "transactional_batch",
        (true, Form::All | Form::Batch, true) => "transactional_batch_of_messages",
    };
    let maker = Ident::new(maker, Span::call_site());
    let message = match signature.form {
        Form::All => quote!(__message.take_all()),
        Form::Each | Form::Batch => quote!(__message),
    };
    let parameter = match signature.form {
        Form::All => quote!(mut __message),
        Form::Each | Form::Batch => quote!(__message),
    };
    let args = signature.args.iter().map(|arg| match arg {
        Arg::Transaction => quote!(__tx),
        Arg::Extract(ty) => {
            let (first, last) = ends(ty);
            let given = parenthesized(quote!(__ctx), last);
            quote_spanned!(first=> <#ty as __outbox::Extract<'_>>::extract #given?)
        }
    });
    let tx = model.transactional.then(|| quote!(__tx,));
    let function = model.function;
    let item = signature.item;
    let (item_start, _) = ends(item);
    let maker = quote_spanned!(item_start=> __outbox::#maker::<#item>);
    let returns = &signature.returns;
    let (returns_start, _) = ends(returns);
    let translate = quote_spanned!(returns_start=> <#returns as __outbox::Outcome>::into_result);
    // The whole call has the span of the function's name: an error about `Send` is shown there.
    let called = located_at(function.span());
    let run = quote_spanned!(called=> __outbox::run);
    let given = parenthesized(quote!(#message, #(#args),*), called);
    let ran = parenthesized(quote!(#function #given, #translate), called);
    quote! {
        #maker(|#parameter, #tx __ctx| {
            #run #ran
        })
    }
}

/// The `State` types that arguments need.
fn requires(model: &Model<'_>) -> TokenStream {
    let types = model.signature.args.iter().filter_map(|arg| match arg {
        Arg::Extract(ty) => {
            let (first, last) = ends(ty);
            let nothing = parenthesized(TokenStream::new(), last);
            Some(quote_spanned!(first=> <#ty as __outbox::Extract<'_>>::requires #nothing))
        }
        Arg::Transaction => None,
    });
    quote!(<[_]>::concat(&[::std::vec::Vec::new(), #(#types),*]))
}
