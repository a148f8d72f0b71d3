//! Deleting what every consumer has passed, in steps.

use super::sequence::BY_KEYS;
use crate::database::cleanup::{VacuumRequest, Vacuumed};
use crate::database::connection_cache::Kept;
use crate::database::stepwise;
use sea_orm::DbErr;

pub(in crate::database) async fn vacuum(
    kept: &Kept,
    request: &VacuumRequest<'_>,
) -> Result<Vec<Vacuumed>, DbErr> {
    stepwise::vacuum::vacuum(kept.pool(), request, &BY_KEYS).await
}
