//! Sending a dead letter through its queue again.

use super::change::{Change, Holder, change};
use crate::database::incoming::{NewRow, insert_one};
use crate::database::sql::query;
use crate::operate::dead_letter::DeadLetterId;
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbErr};

/// Whether the consumer is there to get it: a message for one that is not would
/// be passed over by all.
pub(crate) async fn can_be_requeued<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    consumer: &str,
) -> Result<bool, DbErr> {
    let select = "SELECT 1 FROM outbox_consumer WHERE queue_id = ? AND name = ?";
    let rows = query(conn, select, [queue_id.into(), consumer.into()]).await?;
    Ok(!rows.is_empty())
}

/// Writes the new message and what became of the letter;
/// inside the caller's transaction, which holds the letter's lock. Returns the
/// message's id.
pub(crate) async fn send_again<C: ConnectionTrait>(
    conn: &C,
    letter: DeadLetterId,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let message_id = insert_one(conn, queue_id, row).await?;
    let requeue = Change::Requeue { message_id };
    match change(conn, &[letter.get()], Holder::Nobody, &requeue).await? {
        0 => Err(DbErr::RecordNotUpdated),
        _ => Ok(message_id),
    }
}
