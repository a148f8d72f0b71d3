//! From incoming to outgoing: committed rows get their sequence numbers.
//!
//! Invariants:
//! - One sequencer of a queue at a time, by the row lock of the queue. It is taken with SKIP LOCKED
//!   and never waited for.
//! - Rows are taken in the order of their ids. Sequence numbers have no gaps.
//! - A row of a partition beyond the count stays.
//! - A pass that would take more rows than it writes fails as a whole.

use super::connection_cache::ConnectionCache;
use super::contract;
use crate::queue::{PartitionId, PartitionSet, QueueId};
use sea_orm::DbErr;
use std::collections::BTreeMap;

/// What a pass did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sequenced {
    /// How many rows got a number.
    pub(crate) taken: usize,
    /// The partitions that got rows.
    pub(crate) moved: PartitionSet,
    /// Another process holds the queue: nothing is known.
    pub(crate) locked: bool,
}

impl Sequenced {
    /// Another process holds the queue.
    pub(crate) fn by_another() -> Self {
        Self {
            locked: true,
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, partition_id: PartitionId, rows: usize) {
        self.taken += rows;
        self.moved.insert(partition_id.number());
    }
}

/// Where PostgreSQL had the rows of a queue's partitions after the last pass that succeeded.
#[derive(Default)]
pub(crate) struct PartitionRows {
    pub(crate) known: BTreeMap<PartitionId, String>,
}

/// What a pass is asked for.
pub(super) struct SequenceRequest {
    pub(super) queue_id: QueueId,
    /// How many rows at most.
    pub(super) limit: u32,
    /// Whether the commit need not wait for the disk.
    pub(super) asynchronous_commit: bool,
    /// Whether it looks at all rows, also where none should be.
    pub(super) thorough: bool,
}

/// Numbers up to `limit` committed rows of a queue, all its partitions at once.
pub(crate) async fn sequence(
    connections: &ConnectionCache,
    queue_id: QueueId,
    limit: u32,
    asynchronous_commit: bool,
    thorough: bool,
    partition_rows: &mut PartitionRows,
) -> Result<Sequenced, DbErr> {
    #[cfg(feature = "sabotage")]
    super::sabotage::forget_late(connections.pool(), queue_id).await?;
    let request = SequenceRequest {
        queue_id,
        limit,
        asynchronous_commit,
        thorough,
    };
    contract::sequence(connections, &request, partition_rows).await
}
