use outbox::prelude::*;
use std::marker::PhantomData;
use std::rc::Rc;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated {
    pub order_id: PhantomData<Rc<i64>>,
}

fn main() {}
