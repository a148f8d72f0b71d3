//! What the macros generate, as files in `snapshots/` of this crate. After a
//! change on purpose: `UPDATE_EXPECT=1 cargo test -p outbox-macros`.

use crate::{event, queue};
use expect_test::{ExpectFile, expect_file};
use proc_macro2::TokenStream;
use quote::quote;

pub(crate) fn check(generated: TokenStream, expected: ExpectFile) {
    let file = syn::parse2(generated).expect("the macros generate Rust");
    expected.assert_eq(&prettyplease::unparse(&file));
}

#[test]
fn a_struct() {
    let generated = event::attribute(
        quote!(queue = "orders", partitions = 4),
        quote! {
            #[derive(Serialize, Deserialize)]
            pub struct OrderCreated { pub order_id: i64 }
        },
    );
    check(generated, expect_file!["../../snapshots/struct.rs"]);
}

#[test]
fn every_option() {
    let generated = event::attribute(
        quote! {
            queue = "orders",
            partitions = 2 * COUNT,
            name = "order.created",
            aliases = ["OrderPlaced", "order.v0"],
            key = 0,
            max_payload = 1_024,
            crate = crate::bus,
        },
        quote!(
            struct OrderCreated(i64);
        ),
    );
    check(generated, expect_file!["../../snapshots/every_option.rs"]);
}

#[test]
fn a_queue_type_and_a_key_function() {
    let generated = event::attribute(
        quote!(queue = queues::Orders, key = Self::order_key),
        quote!(
            pub(crate) enum OrderEvent {
                Created(i64),
                Cancelled,
            }
        ),
    );
    check(generated, expect_file!["../../snapshots/queue_type.rs"]);
}

#[test]
fn the_derive_is_the_attribute_without_the_item() {
    let item = quote!(
        pub struct OrderCreated {
            pub order_id: i64,
        }
    );
    let options = quote!(queue = "orders", partitions = 4);
    let derived = event::derive(quote!(#[outbox(#options)] #item));
    let annotated = event::attribute(options, item.clone());
    assert_eq!(quote!(#item #derived).to_string(), annotated.to_string());
}

#[test]
fn a_mistake() {
    let generated = event::attribute(
        quote!(queue = "my orders", partition = 4, key = order_id),
        quote!(
            pub struct OrderCreated {
                pub order_id: i64,
            }
        ),
    );
    check(generated, expect_file!["../../snapshots/mistake.rs"]);
}

#[test]
fn a_generic_type() {
    let generated = event::attribute(
        quote!(queue = "orders", partitions = 4),
        quote!(
            struct Changed<'a, T: Clone>(&'a T);
        ),
    );
    check(generated, expect_file!["../../snapshots/generic.rs"]);
}

#[test]
fn a_queue() {
    let generated = queue::declare(quote!(pub Orders = "orders", partitions = 4));
    check(generated, expect_file!["../../snapshots/queue.rs"]);
}
