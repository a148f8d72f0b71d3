//! Numbering committed rows, in steps.

use super::by_keys::BY_KEYS;
use crate::database::connection_cache::ConnectionCache;
use crate::database::sequence::{PartitionRows, SequenceRequest, Sequenced};
use crate::database::stepwise;
use sea_orm::DbErr;

pub(in crate::database) async fn sequence(
    connections: &ConnectionCache,
    request: &SequenceRequest,
    _: &mut PartitionRows,
) -> Result<Sequenced, DbErr> {
    stepwise::sequence::sequence(connections.pool(), request, &BY_KEYS).await
}
