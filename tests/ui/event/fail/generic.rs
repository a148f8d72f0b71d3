use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct Changed<T> {
    pub before: T,
    pub after: T,
}

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct Matrix<const N: usize>;

pub async fn change(tx: &DatabaseTransaction) -> Result<OutboxMessageId, EnqueueError> {
    Matrix::<2>.enqueue(tx, 7).await?;
    let changed = Changed {
        before: 1,
        after: 2,
    };
    changed.enqueue(tx, 7).await
}

fn main() {}
