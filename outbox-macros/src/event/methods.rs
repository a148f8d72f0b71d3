//! The inherent methods of an event: their signatures and their documentation.
//!
//! Each is one call into the runtime. For an item with a mistake in it they do
//! nothing: then they exist so that calls of them compile.

use super::key::Key;
use crate::paths::ends;
use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Generics, Ident, Visibility};

/// What the methods of one event are made of.
pub(crate) struct Methods<'a> {
    pub(crate) vis: &'a Visibility,
    pub(crate) ident: &'a Ident,
    /// Empty for an event that keeps the rules.
    pub(crate) generics: &'a Generics,
}

/// A method: its documentation, what follows `fn`, and its body.
struct Method {
    docs: &'static str,
    signature: TokenStream,
    body: TokenStream,
}

impl Methods<'_> {
    /// Methods that work, with `emit` if there is a key.
    pub(super) fn calling_runtime(&self, key: Option<&Key>) -> TokenStream {
        let emit = key.map(|key| Self::emit(own_key(key)));
        self.implementation(Self::enqueues().into_iter().chain(emit))
    }

    /// Methods with the same signatures that do nothing.
    pub(crate) fn doing_nothing(&self, with_emit: bool) -> TokenStream {
        let emit = with_emit.then(|| Self::emit(TokenStream::new()));
        let methods = Self::enqueues().into_iter().chain(emit);
        self.implementation(methods.map(|method| Method {
            body: quote!(::std::boxed::Box::pin(::core::future::pending())),
            ..method
        }))
    }

    fn implementation(&self, methods: impl Iterator<Item = Method>) -> TokenStream {
        let Self { vis, ident, .. } = self;
        let (impl_generics, ty_generics, where_clause) = self.generics.split_for_impl();
        let methods = methods.map(|method| {
            let Method {
                docs,
                signature,
                body,
            } = method;
            let docs = docs.lines().map(|line| format!(" {line}"));
            quote! {
                #(#[doc = #docs])*
                #vis fn #signature { #body }
            }
        });
        // A program need not call all of them, and a stub ignores its arguments.
        quote! {
            #[allow(dead_code, unused_variables)]
            impl #impl_generics #ident #ty_generics #where_clause {
                #(#methods)*
            }
        }
    }

    fn enqueues() -> [Method; 4] {
        let one = quote!(__outbox::Enqueuing<'c, __outbox::OutboxMessageId>);
        let many = quote!(__outbox::Enqueuing<'c, ::std::vec::Vec<__outbox::OutboxMessageId>>);
        let generics = quote!('c, C: __outbox::ConnectionTrait, K: __outbox::EventKey);
        [
            Method {
                docs: ENQUEUE,
                signature: quote!(enqueue<#generics>(&self, conn: &'c C, key: K) -> #one),
                body: quote!(__outbox::enqueue(self, conn, key)),
            },
            Method {
                docs: ENQUEUE_WITH,
                signature: quote! {
                    enqueue_with<#generics>(
                        &self,
                        conn: &'c C,
                        key: K,
                        options: __outbox::EnqueueOptions,
                    ) -> #one
                },
                body: quote!(__outbox::enqueue_with(self, conn, key, options)),
            },
            Method {
                docs: ENQUEUE_TO,
                signature: quote! {
                    enqueue_to<#generics>(&self, conn: &'c C, partition: u32, key: K) -> #one
                },
                body: quote!(__outbox::enqueue_to(self, conn, partition, key)),
            },
            Method {
                docs: ENQUEUE_ALL,
                signature: quote! {
                    enqueue_all<'c, C, I, K, B>(conn: &'c C, events: I) -> #many
                    where
                        C: __outbox::ConnectionTrait,
                        I: ::core::iter::IntoIterator<Item = (K, B)>,
                        K: __outbox::EventKey,
                        B: ::core::borrow::Borrow<Self>,
                },
                body: quote!(__outbox::enqueue_all::<Self, C, I, K, B>(conn, events)),
            },
        ]
    }

    fn emit(key: TokenStream) -> Method {
        Method {
            docs: EMIT,
            signature: quote! {
                emit<'c, C: __outbox::ConnectionTrait>(
                    &self,
                    conn: &'c C,
                ) -> __outbox::Enqueuing<'c, __outbox::OutboxMessageId>
            },
            body: quote!(__outbox::enqueue(self, conn, #key)),
        }
    }
}

/// The key of an event, as bytes. If its type is no key, the compiler's error is shorter
/// here than in a call of `enqueue`. Located at the user's token.
fn own_key(key: &Key) -> TokenStream {
    let (place, key) = match key {
        Key::Field(member) => {
            let (place, _) = ends(member);
            (place, quote_spanned!(place=> self.#member))
        }
        Key::Function(path) => {
            let (_, place) = ends(path);
            (place, quote_spanned!(place=> #path(self)))
        }
    };
    quote_spanned!(place=> __outbox::EventKey::to_key_bytes(&#key))
}

const ENQUEUE: &str = "\
Enqueues this event under a key.

`Ok` means that it is delivered if the surrounding transaction commits, and never
seen if it rolls back; on a plain connection it is delivered from then on. The id
is the one that handlers see.

Events with equal keys reach a consumer in the order in which their transactions
committed. The key decides the partition.

# Errors
If the payload or the key is too large, or the event cannot be written as JSON:
then nothing was written. If the database refuses: then roll the transaction back.";

const ENQUEUE_WITH: &str = "\
Enqueues this event under a key, with options such as headers. Otherwise the same
as `enqueue`.

# Errors
Those of `enqueue`, and if a header is not valid: then nothing was written.";

const ENQUEUE_TO: &str = "\
Enqueues this event to a partition of your choice, counted from 0. Otherwise the
same as `enqueue`.

The key is sent along but decides nothing: events with equal keys keep their order
only if they go to the same partition.

# Errors
Those of `enqueue`, and if there is no such partition: then nothing was written.";

const ENQUEUE_ALL: &str = "\
Enqueues many events, each with its key, in as few round trips as the database allows.

The ids are in the order of the events. An empty list is fine.

# Errors
Those of `enqueue`; the error says which event is at fault. All of them are checked
before the first is written.";

const EMIT: &str = "\
Enqueues this event under its own key, the one that `key = ..` names. Otherwise the
same as `enqueue`.

# Errors
Those of `enqueue`.";
