//! The only place that knows a database engine.
//!
//! Each engine has a file with the same functions and constants in the same
//! order; this one picks the file.

mod error_class;
mod mysql;
mod postgres;
mod postgres_claims;
mod postgres_worker;
mod sqlite;

use crate::database::incoming::{ChunkLimit, NewRow};
use crate::database::sql::execute;
use crate::queue::QueueId;
use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, IsolationLevel, SqliteTransactionMode, TransactionOptions,
    Value,
};

/// An engine we speak to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    Postgres,
    MySql,
    Sqlite,
}

impl Dialect {
    pub(crate) fn of<C: ConnectionTrait>(conn: &C) -> Result<Self, DbErr> {
        match conn.get_database_backend() {
            DbBackend::Postgres => Ok(Self::Postgres),
            DbBackend::MySql => Ok(Self::MySql),
            DbBackend::Sqlite => Ok(Self::Sqlite),
            other => Err(DbErr::BackendNotSupported {
                db: other.as_str(),
                ctx: "the outbox",
            }),
        }
    }

    /// Its words for what every engine has.
    pub(crate) const fn words(self) -> &'static Words {
        match self {
            Self::Postgres => &postgres::WORDS,
            Self::MySql => &mysql::WORDS,
            Self::Sqlite => &sqlite::WORDS,
        }
    }
}

/// What [`store::sql`](crate::database::sql) puts into statements; pairs go around
/// their argument.
pub(crate) struct Words {
    pub(crate) now: &'static str,
    pub(crate) later: (&'static str, &'static str),
    /// Between a time and a number of microseconds, and after it.
    pub(crate) earlier: (&'static str, &'static str),
    pub(crate) micros: (&'static str, &'static str),
    pub(crate) key: &'static str,
    pub(crate) partition: &'static str,
    pub(crate) for_update: &'static str,
    pub(crate) skip_locked: &'static str,
    /// `@` stands for the argument.
    pub(crate) or_ignore: &'static str,
    /// `@` stands for the argument.
    pub(crate) or_update: &'static str,
    /// That queue `q` has committed rows of its partitions without a number.
    pub(crate) unsequenced: &'static str,
    /// That it has some where the sequencer no longer looks.
    pub(crate) below_mark: &'static str,
    /// Before a query: notes that processes of consumers were seen, by arrays of their
    /// queues, names and types. Empty if that takes a statement of its own.
    pub(crate) with_seen: &'static str,
}

/// Writes by lists of primary keys, given as JSON; the text is the same for any
/// number of rows. For engines that need several statements where PostgreSQL
/// needs one.
pub(crate) struct ByKeys {
    /// The queue's id, `[[id, slot], ...]`
    pub(crate) insert_incoming: &'static str,
    /// `[[partition_id, seq, id], ...]`
    pub(crate) insert_outgoing: &'static str,
    /// `[[id, sequence], ...]`
    pub(crate) advance_partitions: &'static str,
    /// `[id, ...]`, the queue's id
    pub(crate) delete_incoming: &'static str,
    /// `[seq, ...]`, the partition's id
    pub(crate) delete_outgoing: &'static str,
    /// `[id, ...]`
    pub(crate) delete_bodies: &'static str,
}

/// One incoming row, where it is a statement of its own.
const INSERT_ONE_INCOMING: &str = "\
    INSERT INTO outbox_incoming (queue_id, id, slot) VALUES (?, ?, ?)";

/// How much one statement that writes bodies may carry.
pub(crate) fn chunk_limit<C: ConnectionTrait>(conn: &C) -> Result<ChunkLimit, DbErr> {
    Ok(match Dialect::of(conn)? {
        Dialect::Postgres => postgres::CHUNK_LIMIT,
        Dialect::MySql => mysql::CHUNK_LIMIT,
        Dialect::Sqlite => sqlite::CHUNK_LIMIT,
    })
}

/// Writes a body and its incoming row; returns the id.
pub(crate) async fn insert_message<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    row: NewRow,
) -> Result<i64, DbErr> {
    let slot = row.slot.stored();
    let id = match Dialect::of(conn)? {
        Dialect::Postgres => return postgres::insert_message(conn, queue_id, row).await,
        Dialect::MySql => mysql::insert_body(conn, queue_id, row).await?,
        Dialect::Sqlite => sqlite::insert_body(conn, queue_id, row).await?,
    };
    let values = [queue_id.into(), id.into(), slot.into()];
    execute(conn, INSERT_ONE_INCOMING, values).await?;
    Ok(id)
}

/// Writes bodies and incoming rows of one chunk; returns the ids in order.
pub(crate) async fn insert_messages<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    if Dialect::of(conn)? == Dialect::Postgres {
        return postgres::insert_messages(conn, queue_id, rows).await;
    }
    let slots: Vec<i16> = rows.iter().map(|row| row.slot.stored()).collect();
    let ids = insert_bodies(conn, queue_id, rows).await?;
    insert_incoming(conn, queue_id, &ids, &slots).await?;
    Ok(ids)
}

/// Writes the bodies of one chunk; returns the ids in order.
pub(crate) async fn insert_bodies<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    rows: Vec<NewRow>,
) -> Result<Vec<i64>, DbErr> {
    match Dialect::of(conn)? {
        Dialect::Postgres => Err(postgres::too_large()),
        Dialect::MySql => mysql::insert_bodies(conn, queue_id, rows).await,
        Dialect::Sqlite => sqlite::insert_bodies(conn, queue_id, rows).await,
    }
}

/// Writes the incoming rows of bodies, in one statement however many there are.
pub(crate) async fn insert_incoming<C: ConnectionTrait>(
    conn: &C,
    queue_id: QueueId,
    ids: &[i64],
    slots: &[i16],
) -> Result<(), DbErr> {
    let by_keys = match Dialect::of(conn)? {
        Dialect::Postgres => return Err(postgres::too_large()),
        Dialect::MySql => &mysql::BY_KEYS,
        Dialect::Sqlite => &sqlite::BY_KEYS,
    };
    let values = [queue_id.into(), json_pairs(ids, slots).into()];
    execute(conn, by_keys.insert_incoming, values).await?;
    Ok(())
}

pub(crate) use error_class::{ErrorClass, classify};
pub(crate) use mysql::BY_KEYS as MYSQL_BY_KEYS;
/// What an engine can do in one statement.
pub(crate) use postgres_claims::{claim as claim_at_once, claim_together};
pub(crate) use postgres_worker::{sequence as sequence_at_once, vacuum as vacuum_at_once};
pub(crate) use sqlite::BY_KEYS as SQLITE_BY_KEYS;

/// `insert` followed by `count` times `values`, with commas between.
pub(crate) fn values_list(insert: &str, values: &str, count: usize) -> String {
    let mut sql = String::with_capacity(insert.len() + count * (values.len() + 1) + 16);
    sql.push_str(insert);
    for i in 0..count {
        if i > 0 {
            sql.push(',');
        }
        sql.push_str(values);
    }
    sql
}

/// The values of each row, in the order of the columns.
fn body_values(queue_id: QueueId, rows: Vec<NewRow>) -> impl Iterator<Item = Value> {
    rows.into_iter().flat_map(move |row| {
        [
            queue_id.into(),
            row.slot.stored().into(),
            row.nonce.into(),
            row.event_type.into_owned().into(),
            row.key.into(),
            row.payload.into(),
            row.headers.into(),
            row.target.into(),
        ]
    })
}

/// `[[id,slot],...]`: numbers only, so this is JSON.
fn json_pairs(ids: &[i64], slots: &[i16]) -> String {
    let pairs: Vec<String> = ids
        .iter()
        .zip(slots)
        .map(|(id, slot)| format!("[{id},{slot}]"))
        .collect();
    format!("[{}]", pairs.join(","))
}

/// The ids a statement returned. They were drawn in the order of the list, so
/// sorted they are in that order, in whatever order they came back.
fn in_the_order_of_the_list(mut ids: Vec<i64>, count: usize) -> Result<Vec<i64>, DbErr> {
    if ids.len() != count {
        return Err(DbErr::RecordNotInserted);
    }
    ids.sort_unstable();
    Ok(ids)
}

/// How a transaction of our own that writes begins. READ COMMITTED, whatever
/// the database's default: what follows a lock must see what came before it,
/// and on MySQL gap locks would deadlock. On SQLite as the writer, because a
/// reader that wants to become one cannot wait.
pub(crate) fn transaction_options(dialect: Dialect) -> TransactionOptions {
    match dialect {
        Dialect::Postgres | Dialect::MySql => TransactionOptions {
            isolation_level: Some(IsolationLevel::ReadCommitted),
            ..TransactionOptions::default()
        },
        Dialect::Sqlite => TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        },
    }
}

/// How the transaction of a handler begins: with the database's own isolation,
/// which the user chose; on SQLite as the writer it will be.
pub(crate) fn handler_transaction_options(dialect: Dialect) -> TransactionOptions {
    match dialect {
        Dialect::Postgres | Dialect::MySql => TransactionOptions::default(),
        Dialect::Sqlite => transaction_options(dialect),
    }
}
