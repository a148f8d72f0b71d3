//! The macros of the outbox crate.
use proc_macro::TokenStream;
/// x
#[proc_macro_attribute]
pub fn outbox_event(_a: TokenStream, i: TokenStream) -> TokenStream {
    i
}
/// x
#[proc_macro_derive(OutboxEvent, attributes(outbox))]
pub fn derive_outbox_event(_i: TokenStream) -> TokenStream {
    TokenStream::new()
}
/// x
#[proc_macro]
pub fn queue(_i: TokenStream) -> TokenStream {
    TokenStream::new()
}
