//! Writing messages: a body and its incoming row in one statement, however many there are.

use crate::database::enqueue::{self, NewRow};
use crate::database::statement::{Run, Values, statements, values};
use crate::queue::QueueId;
use sea_orm::{ConnectionTrait, DbErr};

statements! { POSTGRES;
    INSERT_MESSAGE = file "insert_message.sql";
    INSERT_MESSAGES = file "insert_messages.sql";
}

/// The protocol carries a gigabyte; memory on both sides should not have to.
const MOST_BYTES: usize = 256 << 20;

pub(in crate::database) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let values = values! {
        queue: queue_id,
        slot: row.slot.stored(),
        nonce: row.nonce,
        event_type: row.event_type.into_owned(),
        key: row.key,
        payload: row.payload,
        headers: row.headers,
        target: row.target,
    };
    let inserted = INSERT_MESSAGE.first(conn, values).await?;
    inserted.ok_or(DbErr::RecordNotInserted)?.try_get_by("id")
}

/// A list is one statement. Were its bodies committed before its incoming rows, as on a bare
/// connection, the transaction that drew the ids would not be the one whose rows the sequencer has
/// to wait for.
pub(in crate::database) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    if rows.iter().map(NewRow::size).sum::<usize>() > MOST_BYTES {
        let most = MOST_BYTES >> 20;
        return Err(DbErr::Custom(format!(
            "a list of more than {most} MiB cannot be enqueued at once: enqueue it in parts"
        )));
    }
    let count = rows.len();
    let inserted = INSERT_MESSAGES.first(conn, columns(queue_id, rows)).await?;
    let ids = inserted
        .ok_or(DbErr::RecordNotInserted)?
        .try_get_by("ids")?;
    enqueue::in_the_order_of_the_list(ids, count)
}

/// The rows as arrays; in the one of headers an empty text is none, for arrays of NULLs
/// cannot be bound.
fn columns(queue_id: QueueId, rows: Vec<NewRow>) -> Values {
    let one_type = rows
        .windows(2)
        .all(|two| two[0].event_type == two[1].event_type);
    let no_headers = rows.iter().all(|row| row.headers.is_none());
    let mut slots = Vec::with_capacity(rows.len());
    let mut nonces = Vec::with_capacity(rows.len());
    let mut types: Vec<String> = Vec::new();
    let mut keys = Vec::with_capacity(rows.len());
    let mut payloads = Vec::with_capacity(rows.len());
    let mut headers: Vec<String> = Vec::new();
    for row in rows {
        if types.is_empty() || !one_type {
            types.push(row.event_type.into_owned());
        }
        slots.push(row.slot.stored());
        nonces.push(row.nonce);
        keys.push(row.key);
        payloads.push(row.payload);
        if !no_headers {
            headers.push(row.headers.unwrap_or_default());
        }
    }
    values! {
        queue: queue_id,
        slots: slots,
        nonces: nonces,
        event_types: types,
        keys: keys,
        payloads: payloads,
        headers: headers,
    }
}
