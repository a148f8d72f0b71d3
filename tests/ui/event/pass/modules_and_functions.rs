mod orders {
    pub mod v2 {
        use outbox::prelude::*;

        #[outbox_event(queue = "orders", partitions = 4, name = "in_module")]
        #[derive(Serialize, Deserialize)]
        pub struct Created;
    }
}

fn main() {
    use outbox::prelude::*;

    const COUNT: u32 = 2;
    outbox::queue!(Local = "local", partitions = COUNT);

    #[outbox_event(queue = Local, name = "in_function", key = Self::key)]
    #[derive(Serialize, Deserialize)]
    struct Created;

    impl Created {
        fn key(&self) -> &'static str {
            "key"
        }
    }

    if COUNT == 2 {
        #[derive(Serialize, Deserialize, OutboxEvent)]
        #[outbox(queue = "orders", partitions = COUNT, name = "in_block")]
        struct Created;
        assert_eq!(Created::QUEUE.partitions().count(), 2);
    }

    let find = |name| outbox::events().find(|event| event.name == name).unwrap();
    let module = find("in_module");
    assert!(
        module.rust_type.ends_with("::orders::v2::Created"),
        "{module:?}"
    );
    assert_eq!((module.file, module.line), (file!(), 5));
    assert_eq!(find("in_function").queue.name(), "local");
    assert_eq!(find("in_block").queue.name(), "orders");
    assert_eq!(outbox::events().count(), 3);
    let _ = Created::emit::<DatabaseConnection>;
}
