//! Bodies that nobody refers to: what a producer on a bare connection left when it failed
//! between its two statements. On PostgreSQL these are one, so there are none.
//!
//! No index leads from a body to its message, so whether there is one takes a look at all
//! of `outbox_incoming` and `outbox_outgoing`. That is done only for bodies older than an
//! hour, for thousands of them at a time, and in one process at a time. On MySQL we read without
//! locks and delete by primary key: nobody who enqueues is waited for. On SQLite a pass is the
//! writer while it lasts.

use super::registration::begin;
use super::sql::{execute, list, query};
use crate::dialect::{Dialect, MYSQL_BY_KEYS, SQLITE_BY_KEYS};
use sea_orm::{DatabaseConnection, DbErr};
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
    let by_keys = match Dialect::of(db)? {
        Dialect::Postgres => return Ok(Orphans::default()),
        Dialect::MySql => &MYSQL_BY_KEYS,
        Dialect::Sqlite => &SQLITE_BY_KEYS,
    };
    // Where nothing is that old, this is all.
    let next = "SELECT {now_us} - {us(enqueued_at)} FROM outbox_body \
         WHERE id > ? ORDER BY id LIMIT 1";
    let next = query(db, next, [after.into()]).await?;
    let age = next.first().map(|row| row.try_get_by_index::<i64>(0));
    if age.transpose()?.is_none_or(|age| age < HOUR_US) {
        return Ok(Orphans::default());
    }
    let tx = begin(db).await?;
    // A row that every process has and none changes.
    let lock = "SELECT version FROM outbox_schema WHERE version = 1 {skip_locked}";
    if query(&tx, lock, []).await?.is_empty() {
        return Ok(Orphans {
            deleted: 0,
            next: Some(after),
        });
    }
    let rows = query(
        &tx,
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
        return Ok(Orphans::default());
    };
    let next = (old.len() == AT_ONCE).then_some(last);
    // In one statement: a message that moves from one table to the other is in one of them.
    let referred = query(
        &tx,
        "SELECT id FROM outbox_incoming WHERE id BETWEEN ? AND ? UNION ALL \
         SELECT id FROM outbox_outgoing WHERE id BETWEEN ? AND ?",
        [first.into(), last.into(), first.into(), last.into()],
    )
    .await?;
    for row in &referred {
        old.remove(&row.try_get_by_index(0)?);
    }
    let mut deleted = 0;
    if !old.is_empty() {
        let keys = [format!("[{}]", list(old)).into()];
        deleted = execute(&tx, by_keys.delete_bodies, keys).await?;
    }
    tx.commit().await?;
    Ok(Orphans { deleted, next })
}
