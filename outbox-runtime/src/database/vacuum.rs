//! Deleting what every consumer has passed.

use super::connection_cache::ConnectionCache;
use super::contract;
use crate::queue::PartitionId;
use sea_orm::DbErr;

/// What a pass deleted in a partition.
#[derive(Debug)]
pub(crate) struct Vacuumed {
    pub(crate) partition_id: PartitionId,
    /// The last number deleted.
    pub(crate) upto: i64,
    pub(crate) rows: i64,
}

/// What a pass is asked for.
pub(super) struct VacuumRequest<'a> {
    /// Partitions, and behind which sequence number to begin in each.
    pub(super) from: &'a [(PartitionId, i64)],
    /// How many rows of a partition at most.
    pub(super) limit: u32,
    /// How old a message must be.
    pub(super) retention_us: i64,
    /// Whether the commit need not wait for the disk.
    pub(super) asynchronous_commit: bool,
}

/// Deletes up to `limit` rows of each partition, beyond the number given with it.
pub(crate) async fn vacuum(
    connections: &ConnectionCache,
    from: &[(PartitionId, i64)],
    limit: u32,
    retention_us: i64,
    asynchronous_commit: bool,
) -> Result<Vec<Vacuumed>, DbErr> {
    let request = VacuumRequest {
        from,
        limit,
        retention_us,
        asynchronous_commit,
    };
    contract::vacuum(connections, &request).await
}
