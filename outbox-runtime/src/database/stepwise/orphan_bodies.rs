//! Bodies that nobody refers to: the search, and deleting what it found.

use super::{ByKeys, json};
use crate::database::orphan_bodies::Orphans;
use crate::database::statement::{Run, statements, values};
use sea_orm::{ConnectionTrait, DbErr};
use std::collections::BTreeSet;

/// A body of this age whose message is missing never gets one.
pub(in crate::database) const HOUR_US: i64 = 3_600_000_000;

/// Bodies that one pass looks at.
const AT_ONCE: usize = 5_000;

statements! { STEPWISE;
    OLDEST = "SELECT {now_us} - {us enqueued_at} AS age_us FROM outbox_body \
        WHERE id > $after ORDER BY id LIMIT 1";
    BODIES = "SELECT id, {now_us} - {us enqueued_at} AS age_us FROM outbox_body \
        WHERE id > $after ORDER BY id LIMIT $limit";
    /// In one statement: a message that moves from one table to the other is in one of them.
    REFERRED_TO = "SELECT id FROM outbox_incoming WHERE id BETWEEN $first AND $last UNION ALL \
        SELECT id FROM outbox_outgoing WHERE id BETWEEN $first AND $last";
}

/// Whether there is a body beyond an id that is old enough to look at. Where nothing is that old,
/// this is all that a search costs.
pub(in crate::database) async fn is_any_old<C: ConnectionTrait>(
    conn: &C,
    after: i64,
) -> Result<bool, DbErr> {
    let oldest = OLDEST.first(conn, values! { after: after }).await?;
    let age = oldest.map(|row| row.try_get_by::<i64, _>("age_us"));
    Ok(age.transpose()?.is_some_and(|age| age >= HOUR_US))
}

/// The orphans among the next bodies beyond an id, and where to go on.
pub(in crate::database) async fn find<C: ConnectionTrait>(
    conn: &C,
    after: i64,
) -> Result<(BTreeSet<i64>, Option<i64>), DbErr> {
    let mut old: BTreeSet<i64> = BTreeSet::new();
    let bodies = values! { after: after, limit: AT_ONCE as u64 };
    for row in BODIES.query(conn, bodies).await? {
        if row.try_get_by::<i64, _>("age_us")? < HOUR_US {
            break;
        }
        old.insert(row.try_get_by("id")?);
    }
    let (Some(&first), Some(&last)) = (old.first(), old.last()) else {
        return Ok((old, None));
    };
    let next = (old.len() == AT_ONCE).then_some(last);
    let range = values! { first: first, last: last };
    for row in REFERRED_TO.query(conn, range).await? {
        old.remove(&row.try_get_by("id")?);
    }
    Ok((old, next))
}

/// Time may pass between the search and this: a body without a message after an hour never gets one.
pub(in crate::database) async fn delete<C: ConnectionTrait>(
    conn: &C,
    by_keys: &ByKeys,
    orphans: BTreeSet<i64>,
    next: Option<i64>,
) -> Result<Orphans, DbErr> {
    let deleted = match orphans.is_empty() {
        true => 0,
        false => {
            let ids = values! { ids: json(orphans) };
            by_keys.delete_bodies.execute(conn, ids).await?
        }
    };
    Ok(Orphans { deleted, next })
}
