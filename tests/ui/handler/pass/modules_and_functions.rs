use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Debug, Serialize, Deserialize)]
pub struct OrderCreated;

mod warehouse {
    pub mod shipping {
        use crate::OrderCreated;

        #[outbox::outbox_handler(mode = leased, consumer = "shipping")]
        pub async fn handle(_: OrderCreated) {}
    }

    pub mod billing {
        // The same name, elsewhere.
        #[outbox::outbox_handler(mode = leased, consumer = "billing")]
        pub async fn handle(_: super::super::OrderCreated) {}
    }
}

// A module and a function of one name: the type needs another.
mod ship {
    pub fn parcel() {}
}

#[outbox_handler(mode = leased, consumer = "ship", handle = ShipHandler)]
async fn ship(_: OrderCreated) {
    ship::parcel();
}

fn in_a_function() -> [outbox::HandlerRegistration; 2] {
    #[outbox_event(queue = "local", partitions = 1)]
    #[derive(Serialize, Deserialize)]
    struct Local;

    #[outbox_handler(mode = leased)]
    async fn local(_: Local) {}

    #[outbox_handler(mode = leased, consumer = "outer")]
    async fn outer(_: OrderCreated) {}

    outbox::handlers![local, outer]
}

async fn build(db: DatabaseConnection) -> Result<outbox::OutboxHandle, outbox::StartError> {
    Outbox::builder(db)
        .without_discovery()
        .handler::<ShipHandler>()
        .handler::<warehouse::billing::handle>()
        .handlers(outbox::handlers![warehouse::shipping::handle,])
        .handlers(outbox::handlers![])
        .handlers(in_a_function())
        .start()
        .await
}

fn main() {
    let _ = build;
    let registry = outbox::registry();
    let names = registry.handlers().iter().map(|handler| handler.name.split_once("::").unwrap().1);
    assert_eq!(
        Vec::from_iter(names),
        ["local", "outer", "ship", "warehouse::billing::handle", "warehouse::shipping::handle"]
    );
    let [local, _] = in_a_function();
    assert_eq!((local.line, local.event()), (37, "Local"));
    assert!(local.file.ends_with("modules_and_functions.rs"));
}
