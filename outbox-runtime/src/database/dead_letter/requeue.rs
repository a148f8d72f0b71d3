//! Sending a dead letter through its queue again.

use super::change::{Change, Holder, change};
use crate::database::enqueue::{NewRow, insert_one};
use crate::database::statement::{Run, statements, values};
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbErr};

statements! { EVERY;
    CONSUMER = "SELECT 1 FROM outbox_consumer WHERE queue_id = $queue AND name = $name";
}

/// Whether the consumer is there to get it: a message for one that is not would
/// be passed over by all.
pub(crate) async fn can_be_requeued<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    consumer: &str,
) -> Result<bool, DbErr> {
    let values = values! { queue: queue_id, name: consumer };
    Ok(CONSUMER.first(conn, values).await?.is_some())
}

/// Writes the new message and what became of the letter; inside the caller's transaction, which
/// holds the letter's lock. Returns the message's id.
pub(crate) async fn send_again<C: ConnectionTrait>(
    conn: &C,
    letter: i64,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let message_id = insert_one(conn, queue_id, row).await?;
    let requeue = Change::Requeue { message_id };
    match change(conn, &[letter], Holder::Nobody, &requeue).await? {
        0 => Err(DbErr::RecordNotUpdated),
        _ => Ok(message_id),
    }
}
