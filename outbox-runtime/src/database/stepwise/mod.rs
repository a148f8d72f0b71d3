//! What MySQL and SQLite share: where PostgreSQL needs one statement they need several.
//!
//! Rows are read first. Writes go by lists of primary keys, given as JSON, so that the text is the
//! same for any number of rows.

pub(super) mod claim;
pub(super) mod enqueue;
pub(super) mod orphan_bodies;
pub(super) mod reconcile;
pub(super) mod sequence;
pub(super) mod vacuum;

use super::statement::Statement;

/// There is no low watermark: every committed row is looked at.
pub(super) const UNSEQUENCED: &str = "EXISTS (SELECT 1 FROM outbox_incoming i \
    WHERE i.queue_id = q.id AND i.slot < 16384 + q.partitions)";
pub(super) const BELOW_LOW_WATERMARK: &str = "1 = 0";

/// Writes by lists of primary keys.
pub(super) struct ByKeys {
    /// `$rows`: `[[partition_id, seq, id], ...]`
    pub(super) insert_outgoing: &'static Statement,
    /// `$rows`: `[[id, sequence], ...]`
    pub(super) advance_partitions: &'static Statement,
    /// `$queue`, `$ids`: `[id, ...]`
    pub(super) delete_incoming: &'static Statement,
    /// `$partition`, `$seqs`: `[seq, ...]`
    pub(super) delete_outgoing: &'static Statement,
    /// `$ids`: `[id, ...]`
    pub(super) delete_bodies: &'static Statement,
}

/// Numbers as a JSON list.
pub(super) fn json<N: ToString>(numbers: impl IntoIterator<Item = N>) -> String {
    let numbers: Vec<String> = numbers.into_iter().map(|n| n.to_string()).collect();
    format!("[{}]", numbers.join(","))
}
