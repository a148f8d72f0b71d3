//! Bodies that nobody refers to: what a producer on a bare connection left when it failed
//! between its two statements. On PostgreSQL these are one, so there are none.
//!
//! No index leads from a body to its message, so whether there is one takes a look at all
//! of `outbox_incoming` and `outbox_outgoing`. That is done only for bodies older than an
//! hour, for thousands of them at a time, and on MySQL in one process at a time. There we read
//! without locks and delete by primary key: nobody who enqueues is waited for. On SQLite a pass
//! is the writer only while it deletes what it has found.

use super::registration::begin;
use super::sql::{execute, list, query};
use crate::database::dialect::{Dialect, MYSQL_BY_KEYS, SQLITE_BY_KEYS};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbErr};
use std::collections::BTreeSet;

/// So old is a body whose message is missing for good.
const HOUR_US: i64 = 3_600_000_000;

/// Bodies that one pass looks at.
const AT_ONCE: usize = 5_000;

/// What a pass did.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(crate) deleted: u64,
    /// Where the next pass begins; `None` if there is no older body beyond.
    pub(crate) next: Option<i64>,
}

/// Deletes the orphans among the bodies beyond an id, in the order of ids.
pub(crate) async fn delete_orphans(db: &DatabaseConnection, after: i64) -> Result<Orphans, DbErr> {
    let dialect = Dialect::of(db)?;
    if dialect == Dialect::Postgres {
        return Ok(Orphans::default());
    }
    // Where nothing is that old, this is all.
    let next = "SELECT {now_us} - {us(enqueued_at)} FROM outbox_body \
         WHERE id > ? ORDER BY id LIMIT 1";
    let next = query(db, next, [after.into()]).await?;
    let age = next.first().map(|row| row.try_get_by_index::<i64>(0));
    if age.transpose()?.is_none_or(|age| age < HOUR_US) {
        return Ok(Orphans::default());
    }
    if dialect == Dialect::Sqlite {
        let (found, next) = find(db, after).await?;
        let deleted = delete(db, SQLITE_BY_KEYS.delete_bodies, found).await?;
        return Ok(Orphans { deleted, next });
    }
    let tx = begin(db).await?;
    // A row that every process has and none changes.
    let lock = "SELECT number FROM outbox_schema WHERE number = 2 {skip_locked}";
    if query(&tx, lock, []).await?.is_empty() {
        return Ok(Orphans {
            deleted: 0,
            next: Some(after),
        });
    }
    let (found, next) = find(&tx, after).await?;
    let deleted = delete(&tx, MYSQL_BY_KEYS.delete_bodies, found).await?;
    tx.commit().await?;
    Ok(Orphans { deleted, next })
}

/// The orphans among the next bodies beyond an id, and where to go on.
async fn find<C: ConnectionTrait>(
    conn: &C,
    after: i64,
) -> Result<(BTreeSet<i64>, Option<i64>), DbErr> {
    let rows = query(
        conn,
        "SELECT id, {now_us} - {us(enqueued_at)} FROM outbox_body WHERE id > ? ORDER BY id LIMIT ?",
        [after.into(), (AT_ONCE as u64).into()],
    )
    .await?;
    let mut old: BTreeSet<i64> = BTreeSet::new();
    for row in &rows {
        if row.try_get_by_index::<i64>(1)? < HOUR_US {
            break;
        }
        old.insert(row.try_get_by_index(0)?);
    }
    let (Some(&first), Some(&last)) = (old.first(), old.last()) else {
        return Ok((old, None));
    };
    let next = (old.len() == AT_ONCE).then_some(last);
    // In one statement: a message that moves from one table to the other is in one of them.
    let referred = query(
        conn,
        "SELECT id FROM outbox_incoming WHERE id BETWEEN ? AND ? UNION ALL \
         SELECT id FROM outbox_outgoing WHERE id BETWEEN ? AND ?",
        [first.into(), last.into(), first.into(), last.into()],
    )
    .await?;
    for row in &referred {
        old.remove(&row.try_get_by_index(0)?);
    }
    Ok((old, next))
}

/// Whoever has no message an hour after it was enqueued never gets one, so time may pass
/// between the search and this.
async fn delete<C: ConnectionTrait>(
    conn: &C,
    delete_bodies: &str,
    orphans: BTreeSet<i64>,
) -> Result<u64, DbErr> {
    if orphans.is_empty() {
        return Ok(0);
    }
    let keys = [format!("[{}]", list(orphans)).into()];
    execute(conn, delete_bodies, keys).await
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::{NewMessage, Partitions, Queue, enqueue};
    use std::time::Duration;

    #[tokio::test]
    async fn a_search_that_finds_nothing_does_not_wait_for_the_writer_of_sqlite() {
        let db = crate::testing::database().await;
        let queue = Queue::of("nobody", Partitions::of(1));
        let message = NewMessage::new("step", "k", "waits");
        enqueue(&db, &queue, message).await.expect("enqueue");
        let age = "UPDATE outbox_body SET enqueued_at = {earlier(enqueued_at)}";
        execute(&db, age, [(2 * HOUR_US).into()])
            .await
            .expect("age");
        let writer = begin(&db).await.expect("the writer");
        let search = tokio::time::timeout(Duration::from_secs(10), delete_orphans(&db, 0));
        let found = search.await.expect("nobody is waited for").expect("found");
        assert_eq!(found.deleted, 0);
        writer.rollback().await.expect("rollback");
    }
}
