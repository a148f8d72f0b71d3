//! A watch over leases inside the database: a trigger sees every change of a cursor, by every
//! process and however briefly it lasts, and writes down what is forbidden.
//!
//! A worker's name for leases begins with its process id, and each connection says whose it is.
//! So the trigger knows whether the process that acknowledges has the lease.

use outbox_tests::{Engine, TestDb};

/// What may never happen to a cursor. `{me}` is the process id of the writer, `{owner}` that of the
/// lease's owner, `{now}` the clock.
const RULES: [(&str, &str); 4] = [
    (
        "a cursor went back",
        "NEW.processed_seq < OLD.processed_seq",
    ),
    ("an epoch went back", "NEW.lease_epoch < OLD.lease_epoch"),
    (
        "an acknowledgement without the lease",
        "NEW.processed_seq > OLD.processed_seq AND COALESCE({owner}, '') <> {me}",
    ),
    (
        "a lease taken from its holder",
        "COALESCE(NEW.lease_owner, '') <> COALESCE(OLD.lease_owner, '') \
            AND {owner} <> {me} AND OLD.lease_until > {now}",
    ),
];

pub(crate) async fn create(db: &TestDb) {
    for (number, (rule, condition)) in RULES.into_iter().enumerate() {
        let (me, owner, now) = match db.engine() {
            Engine::Postgres => (
                "current_setting('application_name')",
                "split_part(OLD.lease_owner, '-', 1)",
                "clock_timestamp()",
            ),
            Engine::MySql => (
                "COALESCE(@chaos_process, '')",
                "SUBSTRING_INDEX(OLD.lease_owner, '-', 1)",
                "UTC_TIMESTAMP(6)",
            ),
            // The run has one process, which has the lease.
            Engine::Sqlite => (
                "COALESCE(OLD.lease_owner, 'nobody')",
                "OLD.lease_owner",
                "CAST(unixepoch('subsec') * 1000000 AS INTEGER)",
            ),
        };
        let condition = condition
            .replace("{me}", me)
            .replace("{owner}", owner)
            .replace("{now}", now);
        let name = format!("chaos_lease_{number}");
        let write = format!("INSERT INTO chaos_lease VALUES ('{rule}')");
        match db.engine() {
            Engine::Postgres => {
                db.execute(&format!(
                    "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN {write}; RETURN NULL; END $$"
                ))
                .await;
                db.execute(&format!(
                    "CREATE TRIGGER {name} AFTER UPDATE ON outbox_cursor FOR EACH ROW \
                     WHEN ({condition}) EXECUTE FUNCTION {name}()"
                ))
                .await;
            }
            Engine::MySql => {
                db.execute(&format!(
                    "CREATE TRIGGER {name} AFTER UPDATE ON outbox_cursor FOR EACH ROW \
                     INSERT INTO chaos_lease SELECT '{rule}' FROM DUAL WHERE {condition}"
                ))
                .await;
            }
            Engine::Sqlite => {
                db.execute(&format!(
                    "CREATE TRIGGER {name} AFTER UPDATE ON outbox_cursor \
                     WHEN {condition} BEGIN {write}; END"
                ))
                .await;
            }
        }
    }
}
