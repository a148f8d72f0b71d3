//! Deleting what every consumer has passed, in steps.

use super::by_keys::BY_KEYS;
use crate::database::connection_cache::ConnectionCache;
use crate::database::stepwise;
use crate::database::vacuum::{VacuumRequest, Vacuumed};
use sea_orm::DbErr;

pub(in crate::database) async fn vacuum(
    connections: &ConnectionCache,
    request: &VacuumRequest<'_>,
) -> Result<Vec<Vacuumed>, DbErr> {
    stepwise::vacuum::vacuum(connections.pool(), request, &BY_KEYS).await
}
