//! Writes by lists of primary keys, for the steps of sequencer, vacuum and orphan bodies.

use crate::database::statement::statements;
use crate::database::stepwise::ByKeys;

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
