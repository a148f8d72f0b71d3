use outbox::prelude::*;
use std::cell::Cell;
use std::rc::Rc;

#[outbox_event(queue = "orders", partitions = 4, key = Self::key)]
#[derive(Serialize, Deserialize)]
pub struct NotSync(Cell<i64>);

impl NotSync {
    fn key(&self) -> Rc<str> {
        self.0.get().to_string().into()
    }
}

fn send<T: Send>(future: T) -> T {
    future
}

pub async fn all<C: ConnectionTrait>(conn: &C) -> Result<(), EnqueueError> {
    let event = NotSync(Cell::new(7));
    let key = || Rc::<str>::from("key");
    send(event.enqueue(conn, key())).await?;
    send(event.enqueue_with(conn, key(), EnqueueOptions::new())).await?;
    send(event.enqueue_to(conn, 0, key())).await?;
    send(event.emit(conn)).await?;
    send(NotSync::enqueue_all(conn, [(key(), Rc::new(event))])).await?;
    Ok(())
}

/// So the function that enqueues can be spawned, too.
pub fn outer<C: ConnectionTrait>(conn: &C) -> impl Future<Output = ()> + Send {
    let event = NotSync(Cell::new(7));
    let enqueued = event.enqueue(conn, Rc::<str>::from("key"));
    async move { drop(enqueued.await) }
}

fn main() {}
