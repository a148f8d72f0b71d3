#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: i64,
}
const _: () = {
    use ::outbox::__private as __outbox;
    #[automatically_derived]
    impl __outbox::Event for OrderCreated {
        const NAME: &'static str = "OrderCreated";
        const QUEUE: __outbox::Queue = __outbox::Queue::of(
            "orders",
            __outbox::Partitions::of(4),
        );
    }
    #[allow(dead_code, unused_variables)]
    impl OrderCreated {
        /// Enqueues this event under a key.
        ///
        /// `Ok` means that it is delivered if the surrounding transaction commits, and never
        /// seen if it rolls back; on a plain connection it is delivered from then on. The id
        /// is the one that handlers see.
        ///
        /// Events with equal keys reach a consumer in the order in which their transactions
        /// committed. The key decides the partition.
        ///
        /// # Errors
        /// If the payload or the key is too large, or the event cannot be written as JSON:
        /// then nothing was written. If the database refuses: then roll the transaction back.
        pub fn enqueue<'c, C: __outbox::ConnectionTrait, K: __outbox::EventKey>(
            &self,
            conn: &'c C,
            key: K,
        ) -> __outbox::Enqueuing<'c, __outbox::OutboxMessageId> {
            __outbox::enqueue(self, conn, key)
        }
        /// Enqueues this event under a key, with options such as headers. Otherwise the same
        /// as `enqueue`.
        ///
        /// # Errors
        /// Those of `enqueue`, and if a header is not valid: then nothing was written.
        pub fn enqueue_with<'c, C: __outbox::ConnectionTrait, K: __outbox::EventKey>(
            &self,
            conn: &'c C,
            key: K,
            options: __outbox::EnqueueOptions,
        ) -> __outbox::Enqueuing<'c, __outbox::OutboxMessageId> {
            __outbox::enqueue_with(self, conn, key, options)
        }
        /// Enqueues this event to a partition of your choice, counted from 0. Otherwise the
        /// same as `enqueue`.
        ///
        /// The key is sent along but decides nothing: events with equal keys keep their order
        /// only if they go to the same partition.
        ///
        /// # Errors
        /// Those of `enqueue`, and if there is no such partition: then nothing was written.
        pub fn enqueue_to<'c, C: __outbox::ConnectionTrait, K: __outbox::EventKey>(
            &self,
            conn: &'c C,
            partition: u32,
            key: K,
        ) -> __outbox::Enqueuing<'c, __outbox::OutboxMessageId> {
            __outbox::enqueue_to(self, conn, partition, key)
        }
        /// Enqueues many events, each with its key, in as few round trips as the database allows.
        ///
        /// The ids are in the order of the events. An empty list is fine.
        ///
        /// # Errors
        /// Those of `enqueue`; the error says which event is at fault. All of them are checked
        /// before the first is written.
        pub fn enqueue_all<'c, C, I, K, B>(
            conn: &'c C,
            events: I,
        ) -> __outbox::Enqueuing<'c, ::std::vec::Vec<__outbox::OutboxMessageId>>
        where
            C: __outbox::ConnectionTrait,
            I: ::core::iter::IntoIterator<Item = (K, B)>,
            K: __outbox::EventKey,
            B: ::core::borrow::Borrow<Self>,
        {
            __outbox::enqueue_all::<Self, C, I, K, B>(conn, events)
        }
    }
    __outbox::inventory::submit! {
        __outbox::EventRegistration::of:: < OrderCreated >
        (::core::concat!(::core::module_path!(), "::", "OrderCreated"), ::core::file!(),
        ::core::line!(),)
    }
};
