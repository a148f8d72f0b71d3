use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct Renamed<'a> {
    pub name: &'a str,
}

pub async fn rename(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    Renamed { name: "x" }.enqueue(tx, 7).await
}

fn main() {}
