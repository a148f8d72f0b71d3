//! Bodies that nobody refers to. One process at a time looks for them. We read without locks and
//! delete by primary key, so no producer is waited for.

use super::by_keys::BY_KEYS;
use crate::database::orphan_bodies::Orphans;
use crate::database::statement::{Run, statements, values};
use crate::database::stepwise::orphan_bodies::{delete as delete_found, find, is_any_old};
use crate::database::transaction::begin;
use sea_orm::{DatabaseConnection, DbErr};

statements! { MYSQL;
    /// A row that every process has and none changes.
    LOCK = "SELECT number FROM outbox_schema WHERE number = 2 {skip_locked}";
}

pub(in crate::database) const MAY_EXIST: bool = true;

pub(in crate::database) async fn delete(
    db: &DatabaseConnection,
    after: i64,
) -> Result<Orphans, DbErr> {
    if !is_any_old(db, after).await? {
        return Ok(Orphans::default());
    }
    let tx = begin(db).await?;
    if LOCK.first(&tx, values! {}).await?.is_none() {
        let next = Some(after);
        return Ok(Orphans { deleted: 0, next });
    }
    let (found, next) = find(&tx, after).await?;
    let done = delete_found(&tx, &BY_KEYS, found, next).await?;
    tx.commit().await?;
    Ok(done)
}
