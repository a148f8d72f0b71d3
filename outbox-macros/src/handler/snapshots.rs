//! What `#[outbox_handler]` generates, as files in `snapshots/` of this crate.

use super::attribute;
use crate::event::check_snapshot as check;
use expect_test::expect_file;
use quote::quote;

#[test]
fn a_leased_handler() {
    let generated = attribute(
        quote!(mode = leased),
        quote! {
            /// Ships an order.
            pub async fn ship(
                event: OrderCreated,
                State(warehouse): State<Warehouse>,
                ctx: &Ctx,
            ) -> HandlerResult {
                warehouse.ship(event, ctx).await
            }
        },
    );
    check(generated, expect_file!["../../snapshots/leased.rs"]);
}

#[test]
fn a_transactional_handler_with_every_option() {
    let generated = attribute(
        quote! {
            mode = transactional,
            consumer = "ledger",
            from = earliest,
            batch = 50,
            max_attempts = 3,
            retry(base = "250ms", max = "5m", jitter = false),
            lease = "1m",
            headroom = "5s",
            timeout = "20s",
            handle = Book,
            crate = crate::bus,
        },
        quote! {
            async fn book(
                events: Vec<Message<OrderCreated>>,
                tx: &DatabaseTransaction,
            ) -> Result<(), HandlerError> {
                Ok(())
            }
        },
    );
    check(generated, expect_file!["../../snapshots/transactional.rs"]);
}

#[test]
fn a_mistake_leaves_a_type_to_refer_to() {
    let generated = attribute(
        quote!(mode = lesed, batch = 0),
        quote!(
            fn ship() {}
        ),
    );
    check(
        generated,
        expect_file!["../../snapshots/handler_mistake.rs"],
    );
}
