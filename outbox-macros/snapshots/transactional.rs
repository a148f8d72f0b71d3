async fn book(
    events: Vec<Message<OrderCreated>>,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    Ok(())
}
/// The handler `book` as a type, to register it by hand.
#[allow(non_camel_case_types, dead_code)]
enum Book {}
const _: () = {
    use crate::bus::__private as __outbox;
    #[automatically_derived]
    #[allow(deprecated)]
    impl __outbox::OutboxHandler for Book {
        const REGISTRATION: __outbox::HandlerRegistration = __outbox::HandlerRegistration::new(
            (
                ::core::concat!(::core::module_path!(), "::", "book"),
                ::core::file!(),
                ::core::line!(),
            ),
            "ledger",
            __outbox::Mode::Transactional,
            __outbox::HandlerOptions::new()
                .batch(50)
                .lease(60000, 5000)
                .retry(3, 250, 300000, false)
                .timeout(20000)
                .from_earliest(),
            || __outbox::transactional_batch_of_messages::<
                OrderCreated,
            >(|mut __message, __tx, __ctx| {
                __outbox::run(
                    book(__message.take_all(), __tx),
                    <Result<(), HandlerError> as __outbox::Outcome>::into_result,
                )
            }),
            || <[_]>::concat(&[::std::vec::Vec::new()]),
        );
    }
    __outbox::inventory::submit! {
        < Book as __outbox::OutboxHandler > ::REGISTRATION
    }
};
