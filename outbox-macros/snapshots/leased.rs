/// Ships an order.
pub async fn ship(
    event: OrderCreated,
    State(warehouse): State<Warehouse>,
    ctx: &Ctx,
) -> HandlerResult {
    warehouse.ship(event, ctx).await
}
/// The handler `ship` as a type, to register it by hand.
#[allow(non_camel_case_types, dead_code)]
pub enum ship {}
const _: () = {
    use ::outbox::__private as __outbox;
    #[automatically_derived]
    #[allow(deprecated)]
    impl __outbox::OutboxHandler for ship {
        const REGISTRATION: __outbox::HandlerRegistration = __outbox::HandlerRegistration::new(
            (
                ::core::concat!(::core::module_path!(), "::", "ship"),
                ::core::file!(),
                ::core::line!(),
            ),
            "default",
            __outbox::Mode::Leased,
            __outbox::HandlerOptions::new(),
            || __outbox::leased_each::<
                OrderCreated,
            >(|__message, __ctx| {
                __outbox::run(
                    ship(
                        __message,
                        <State<Warehouse> as __outbox::Extract<'_>>::extract(__ctx)?,
                        <&Ctx as __outbox::Extract<'_>>::extract(__ctx)?,
                    ),
                    <HandlerResult as __outbox::Outcome>::into_result,
                )
            }),
            || <[_]>::concat(
                &[
                    ::std::vec::Vec::new(),
                    <State<Warehouse> as __outbox::Extract<'_>>::requires(),
                    <&Ctx as __outbox::Extract<'_>>::requires(),
                ],
            ),
        );
    }
    __outbox::inventory::submit! {
        < ship as __outbox::OutboxHandler > ::REGISTRATION
    }
};
