//! Bodies that nobody refers to. A pass is the writer only while it deletes what it has found.

use super::by_keys::BY_KEYS;
use crate::database::orphan_bodies::Orphans;
use crate::database::stepwise::orphan_bodies::{delete as delete_found, find, is_any_old};
use sea_orm::{DatabaseConnection, DbErr};

pub(in crate::database) const MAY_EXIST: bool = true;

pub(in crate::database) async fn delete(
    db: &DatabaseConnection,
    after: i64,
) -> Result<Orphans, DbErr> {
    if !is_any_old(db, after).await? {
        return Ok(Orphans::default());
    }
    let (found, next) = find(db, after).await?;
    delete_found(db, &BY_KEYS, found, next).await
}
