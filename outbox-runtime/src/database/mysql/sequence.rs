//! Numbering committed rows, in steps; and the writes by lists of primary keys that steps need.

use crate::database::connection_cache::ConnectionCache;
use crate::database::sequence::{PartitionRows, SequenceRequest, Sequenced};
use crate::database::statement::statements;
use crate::database::stepwise::{self, ByKeys};
use sea_orm::DbErr;

statements! { MYSQL;
    INSERT_OUTGOING = file "insert_outgoing.sql";
    ADVANCE_PARTITIONS = file "advance_partitions.sql";
    DELETE_INCOMING = file "delete_incoming.sql";
    DELETE_OUTGOING = file "delete_outgoing.sql";
    DELETE_BODIES = file "delete_bodies.sql";
}

pub(super) static BY_KEYS: ByKeys = ByKeys {
    insert_outgoing: &INSERT_OUTGOING,
    advance_partitions: &ADVANCE_PARTITIONS,
    delete_incoming: &DELETE_INCOMING,
    delete_outgoing: &DELETE_OUTGOING,
    delete_bodies: &DELETE_BODIES,
};

pub(in crate::database) async fn sequence(
    connections: &ConnectionCache,
    request: &SequenceRequest,
    _: &mut PartitionRows,
) -> Result<Sequenced, DbErr> {
    stepwise::sequence::sequence(connections.pool(), request, &BY_KEYS).await
}
