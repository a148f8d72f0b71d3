//! What stands in for an item with a mistake in it: the errors, and a stub that
//! keeps the rest of the program from failing because of it.

use crate::diag::Errors;
use crate::event::{Input, Methods};
use crate::handler;
use crate::paths;
use proc_macro2::TokenStream;
use quote::quote;
use syn::Data;
use syn::ext::IdentExt;

/// The errors of an event, and its methods. It is not registered.
pub(crate) fn event(input: &Input, errors: &Errors) -> TokenStream {
    // If the path is wrong, that is among the errors already.
    let krate = paths::krate(&input.options, &mut Errors::default());
    let ident = &input.item.ident;
    let generics = &input.item.generics;
    let methods = Methods {
        vis: &input.item.vis,
        ident,
        generics,
    };
    let methods = methods.doing_nothing(input.options.name("key").is_some());
    // A generic type or a union may not implement serde's traits, and that
    // would be a second error.
    let is_type = generics.params.is_empty() && !matches!(input.item.data, Data::Union(_));
    let implementation = is_type.then(|| {
        let queue = queue();
        quote! {
            #[automatically_derived]
            impl __outbox::Event for #ident {
                const NAME: &'static str = "placeholder";
                const QUEUE: __outbox::Queue = #queue;
            }
        }
    });
    quote! {
        #errors
        const _: () = {
            use #krate::__private as __outbox;
            #implementation
            #methods
        };
    }
}

/// The errors of a handler, and the type that stands for it. It is not registered.
pub(crate) fn handler(input: &handler::Input, errors: &Errors) -> TokenStream {
    if input.is_method() {
        return quote!(#errors);
    }
    let known = &mut Errors::default();
    let (krate, handle) = (paths::krate(&input.options, known), input.handle(known));
    let name = input.item.sig.ident.unraw().to_string();
    let marker = handler::marker(&input.item.vis, &handle, &name);
    quote! {
        #errors
        #marker
        const _: () = {
            use #krate::__private as __outbox;
            #[automatically_derived]
            impl __outbox::OutboxHandler for #handle {
                const REGISTRATION: __outbox::HandlerRegistration =
                    __outbox::HandlerRegistration::PLACEHOLDER;
            }
        };
    }
}

/// A queue in place of one that cannot be read.
pub(crate) fn queue() -> TokenStream {
    quote!(__outbox::Queue::of(
        "placeholder",
        __outbox::Partitions::of(1)
    ))
}
