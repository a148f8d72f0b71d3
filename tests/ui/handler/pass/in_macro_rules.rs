use outbox::prelude::*;

macro_rules! handler {
    ($vis:vis $name:ident($event:ty), $mode:ident, $consumer:literal, $batch:expr) => {
        #[outbox_handler(mode = $mode, consumer = $consumer, batch = $batch)]
        $vis async fn $name(_: $event) {}
    };
    ($name:ident($($arg:ty),*) -> $returns:ty, $lease:literal) => {
        #[outbox_handler(mode = transactional, consumer = "written", lease = $lease)]
        async fn $name(_: Vec<OrderCreated> $(, _: $arg)*) -> $returns {
            Ok(())
        }
    };
}

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(i64);

handler!(pub one(OrderCreated), leased, "one", 4);
handler!(many(Vec<OrderCreated>), leased, "many", (4));
handler!(message(Message<OrderCreated>), transactional, "message", 4);
handler!(book(&DatabaseTransaction, State<i64>, &Ctx) -> Result<(), HandlerError>, "1m");

fn main() {
    let handlers = outbox::registry();
    assert_eq!(handlers.handlers().len(), 4);
    let _ = outbox::handlers![one, many, message, book];
}
