#![deny(warnings)]

mod inner {
    use outbox::prelude::*;

    #[outbox_event(queue = "orders", partitions = 4, key = 0)]
    #[derive(Serialize, Deserialize)]
    struct Private(i64);

    #[outbox_event(queue = "orders", partitions = 4, key = 0)]
    #[derive(Serialize, Deserialize)]
    pub(super) struct OfTheParent(pub(super) i64);

    #[outbox_event(queue = "orders", partitions = 4)]
    #[derive(Serialize, Deserialize)]
    pub(crate) struct OfTheCrate;

    pub(super) async fn send<C: ConnectionTrait>(conn: &C) -> Result<(), EnqueueError> {
        Private(7).emit(conn).await.map(drop)
    }
}

use outbox::prelude::*;

async fn send<C: ConnectionTrait>(conn: &C) -> Result<(), EnqueueError> {
    inner::send(conn).await?;
    inner::OfTheParent(7).emit(conn).await?;
    inner::OfTheCrate.enqueue(conn, 7).await?;
    Ok(())
}

fn main() {
    let _ = send::<DatabaseConnection>;
}
