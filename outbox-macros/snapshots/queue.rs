///The queue `orders`.
pub enum Orders {}
const _: () = {
    use ::outbox::__private as __outbox;
    #[automatically_derived]
    impl __outbox::QueueType for Orders {
        const QUEUE: __outbox::Queue = __outbox::Queue::of(
            "orders",
            __outbox::Partitions::of(4),
        );
    }
    const _: __outbox::Queue = <Orders as __outbox::QueueType>::QUEUE;
};
