fn ship() {}
::core::compile_error! {
    "`lesed` is not a mode; did you mean `leased`?"
}
::core::compile_error! {
    "a handler is asynchronous: write `async fn ship`"
}
::core::compile_error! {
    "a handler takes its message: write `async fn ship(event: OrderCreated)`, with an event of yours"
}
::core::compile_error! {
    "`batch` is a whole number from 1 to 10000: write `batch = 10`, not 0"
}
/// The handler `ship` as a type, to register it by hand.
#[allow(non_camel_case_types, dead_code)]
enum ship {}
const _: () = {
    use ::outbox::__private as __outbox;
    #[automatically_derived]
    impl __outbox::OutboxHandler for ship {
        const REGISTRATION: __outbox::HandlerRegistration = __outbox::HandlerRegistration::PLACEHOLDER;
    }
};
