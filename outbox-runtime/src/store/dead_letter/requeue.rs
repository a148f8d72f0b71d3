//! Sending a dead letter through its queue again.

use super::change::{Change, Holder, change};
use crate::dead_letters::DeadLetterId;
use crate::queue::queue_of;
use crate::store::incoming::{NewRow, insert_one};
use crate::store::sql::{execute, query};
use sea_orm::{ConnectionTrait, DbErr};

/// Whether the consumer is there to get it: a message for one that is not would
/// be passed over by all.
pub(crate) async fn can_be_requeued<C: ConnectionTrait>(
    conn: &C,
    partition_id: i64,
    consumer: &str,
) -> Result<bool, DbErr> {
    let select = "SELECT 1 FROM outbox_cursor WHERE partition_id = ? AND consumer = ?";
    let rows = query(conn, select, [partition_id.into(), consumer.into()]).await?;
    Ok(!rows.is_empty())
}

/// Writes the new message, for that consumer only, and what became of the letter;
/// inside the caller's transaction, which holds the letter's lock. Returns the
/// message's id.
pub(crate) async fn send_again<C: ConnectionTrait>(
    conn: &C,
    letter: DeadLetterId,
    consumer: &str,
    row: NewRow,
) -> Result<i64, DbErr> {
    let queue_id = queue_of(row.partition_id);
    let message_id = insert_one(conn, queue_id, row).await?;
    execute(
        conn,
        "UPDATE outbox_body SET target = ? WHERE id = ?",
        [consumer.into(), message_id.into()],
    )
    .await?;
    let requeue = Change::Requeue { message_id };
    match change(conn, &[letter.get()], Holder::Nobody, &requeue).await? {
        0 => Err(DbErr::RecordNotUpdated),
        _ => Ok(message_id),
    }
}
