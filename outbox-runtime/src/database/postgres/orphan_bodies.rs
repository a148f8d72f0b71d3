//! Bodies that nobody refers to. There are none: a body and its incoming row are one statement.

use crate::database::orphan_bodies::Orphans;
use sea_orm::{DatabaseConnection, DbErr};

pub(in crate::database) const MAY_EXIST: bool = false;

pub(in crate::database) async fn delete(_: &DatabaseConnection, _: i64) -> Result<Orphans, DbErr> {
    Ok(Orphans::default())
}
