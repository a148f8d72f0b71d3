//! Writing messages: `outbox_body` and `outbox_incoming`.
//!
//! Invariant: bodies are written before the incoming rows that refer to them, and all incoming rows of
//! a call are one statement. So a failure on a bare connection may leave bodies that nobody refers
//! to. It never leaves half of a list enqueued.

use super::contract;
use crate::queue::{QueueId, Slot};
use sea_orm::{ConnectionTrait, DbErr};
use std::borrow::Cow;

/// A checked message, ready to be written.
pub(crate) struct NewRow {
    pub(crate) slot: Slot,
    /// Random bits. With the id they make the unique id.
    pub(crate) nonce: i64,
    pub(crate) event_type: Cow<'static, str>,
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Option<String>,
    /// The only consumer to handle it.
    pub(crate) target: Option<String>,
}

impl NewRow {
    /// How many bytes it has.
    pub(super) fn size(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, String::len);
        self.event_type.len() + self.key.len() + self.payload.len() + headers
    }
}

/// What one statement may carry.
pub(crate) struct ChunkLimit {
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

/// Writes one message; returns its id.
pub(crate) async fn insert_one<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    contract::insert_message(conn, queue_id, row).await
}

/// Writes all messages; returns their ids in the order of the messages.
pub(crate) async fn insert_all<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    contract::insert_messages(conn, queue_id, rows).await
}

/// The ids that a statement returned. They were drawn in the order of the list, so sorted they are
/// in that order, in whatever order they came back.
pub(super) fn in_the_order_of_the_list(mut ids: Vec<i64>, count: usize) -> Result<Vec<i64>, DbErr> {
    if ids.len() != count {
        return Err(DbErr::RecordNotInserted);
    }
    ids.sort_unstable();
    Ok(ids)
}

/// In parts that one statement can carry.
pub(super) fn into_chunks(rows: Vec<NewRow>, limit: &ChunkLimit) -> Vec<Vec<NewRow>> {
    let mut chunks: Vec<Vec<NewRow>> = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let size = row.size();
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < limit.rows && bytes + size <= limit.bytes => {
                bytes += size;
                chunk.push(row);
            }
            _ => {
                bytes = size;
                chunks.push(vec![row]);
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(payload: usize) -> NewRow {
        NewRow {
            slot: Slot::of_partition(0),
            nonce: 0,
            event_type: "".into(),
            key: Vec::new(),
            payload: vec![0; payload],
            headers: None,
            target: None,
        }
    }

    #[test]
    fn chunks_are_bounded_by_rows_and_bytes_and_keep_the_order() {
        let limit = ChunkLimit { rows: 3, bytes: 10 };
        let sizes = [1, 2, 3, 4, 20, 5, 5, 1, 1];
        let chunks = into_chunks(sizes.map(row).into(), &limit);
        let found: Vec<Vec<usize>> = chunks
            .iter()
            .map(|chunk| chunk.iter().map(|row| row.payload.len()).collect())
            .collect();
        assert_eq!(
            found,
            [vec![1, 2, 3], vec![4], vec![20], vec![5, 5], vec![1, 1]]
        );
        assert!(into_chunks(Vec::new(), &limit).is_empty());
    }
}
