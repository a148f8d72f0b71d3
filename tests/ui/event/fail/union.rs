use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
pub union Number {
    pub integer: i64,
    pub float: f64,
}

pub async fn send(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    Number { integer: 7 }.enqueue(tx, 7).await
}

fn main() {}
