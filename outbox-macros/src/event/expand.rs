//! What an event becomes: consts, methods, and an entry in the list of all
//! events of the binary.

use super::methods::Methods;
use super::model::Model;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Generics;
use syn::ext::IdentExt;

pub(super) fn expand(model: &Model<'_>) -> TokenStream {
    let Model {
        krate, ident, vis, ..
    } = model;
    let consts = consts(model);
    let generics = &Generics::default();
    let methods = Methods {
        vis,
        ident,
        generics,
    };
    let methods = methods.calling_runtime(model.key.as_ref());
    // The registration evaluates the other consts. A mistake in this one would only
    // show where an event is enqueued.
    let evaluated = model
        .max_payload
        .is_some()
        .then(|| quote!(const _: usize = <#ident as __outbox::Event>::MAX_PAYLOAD;));
    let rust_name = ident.unraw().to_string();
    quote! {
        const _: () = {
            use #krate::__private as __outbox;

            #[automatically_derived]
            impl __outbox::Event for #ident {
                #consts
            }

            #methods

            #evaluated

            __outbox::inventory::submit! {
                __outbox::EventRegistration::of::<#ident>(
                    ::core::concat!(::core::module_path!(), "::", #rust_name),
                    ::core::file!(),
                    ::core::line!(),
                )
            }
        };
    }
}

fn consts(model: &Model<'_>) -> TokenStream {
    let Model {
        name,
        aliases,
        queue,
        max_payload,
        ..
    } = model;
    let aliases = (!aliases.is_empty())
        .then(|| quote!(const ALIASES: &'static [&'static str] = &[#(#aliases),*];));
    let max_payload = max_payload
        .as_ref()
        .map(|bytes| quote!(const MAX_PAYLOAD: usize = #bytes;));
    quote! {
        const NAME: &'static str = #name;
        #aliases
        const QUEUE: __outbox::Queue = #queue;
        #max_payload
    }
}
