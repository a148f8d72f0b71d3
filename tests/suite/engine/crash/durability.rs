//! On PostgreSQL our own commits need not wait for the disk. A commit with a user's writes always
//! waits.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::{Outbox, OutboxBuilder};
use outbox_tests::postgres;
use std::collections::BTreeSet;

/// Makes every transaction that writes to one of these tables note, as it commits,
/// whether it waits for the disk.
async fn note_commits(db: &TestDb) {
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', \
            current_database()); END $$; \
         CREATE TABLE noted (what TEXT NOT NULL, waits TEXT NOT NULL, xid TEXT NOT NULL); \
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
            INSERT INTO noted VALUES (TG_OP || ' ' || TG_TABLE_NAME, \
                current_setting('synchronous_commit'), pg_current_xact_id()::text); \
            RETURN NULL; END $$;",
    )
    .await;
    for (operation, table) in [
        ("UPDATE", "outbox_cursor"),
        ("UPDATE", "outbox_partition"),
        ("INSERT", "outbox_outgoing"),
        ("DELETE", "outbox_outgoing"),
        ("INSERT", "ledger"),
    ] {
        db.execute(&format!(
            "CREATE CONSTRAINT TRIGGER note_{operation} AFTER {operation} ON {table} \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()"
        ))
        .await;
    }
}

/// The kinds of writes that were committed, each with how.
async fn noted(db: &TestDb, condition: &str) -> BTreeSet<String> {
    let sql = format!("SELECT DISTINCT what || ' ' || waits FROM noted WHERE {condition}");
    db.texts(&sql).await.into_iter().collect()
}

/// Delivers twenty messages to handlers of these kinds, without a failure.
async fn deliver(db: &TestDb, kinds: &[Kind], option: fn(OutboxBuilder) -> OutboxBuilder) {
    create_ledger(db).await;
    note_commits(db).await;
    let mut builder = option(Outbox::builder(db.connect().await));
    for kind in kinds {
        let queue = builder.queue("orders", QUEUE.partitions()).batch(3);
        builder = Scripted::new(*kind, |_, _| Act::Succeed).serve(queue);
    }
    let running = builder.start().await.unwrap();
    commit_many(db, &QUEUE, "k", 0..20).await;
    drained(db).await;
    running.stop().await;
}

fn every_stage(waits: &str) -> BTreeSet<String> {
    let stages = [
        "INSERT outbox_outgoing",
        "UPDATE outbox_partition",
        "UPDATE outbox_cursor",
        "DELETE outbox_outgoing",
    ];
    stages.map(|stage| format!("{stage} {waits}")).into()
}

#[postgres]
async fn our_own_commits_do_not_wait_for_the_disk(db: &TestDb) {
    deliver(db, &[Kind::LeasedEach], |builder| builder).await;
    assert_eq!(noted(db, "true").await, every_stage("off"));
}

#[postgres]
async fn synchronous_bookkeeping_waits_for_the_disk(db: &TestDb) {
    let option = OutboxBuilder::synchronous_bookkeeping;
    deliver(db, &[Kind::LeasedEach], option).await;
    assert_eq!(noted(db, "true").await, every_stage("on"));
}

#[postgres]
async fn a_commit_with_a_users_writes_always_waits_for_the_disk(db: &TestDb) {
    let kinds = [Kind::TransactionalEach, Kind::TransactionalBatch];
    deliver(db, &kinds, |builder| builder).await;
    for kind in kinds {
        assert_eq!(ledger(db, &kind.consumer()).await.len(), 20);
    }
    let users = "xid IN (SELECT xid FROM noted WHERE what = 'INSERT ledger')";
    let expected = ["INSERT ledger on", "UPDATE outbox_cursor on"].map(String::from);
    assert_eq!(noted(db, users).await, expected.into());
    // The other commits of the same outbox are not held back by that.
    let ours = format!("NOT {users} AND what <> 'UPDATE outbox_cursor'");
    let mut expected = every_stage("off");
    expected.remove("UPDATE outbox_cursor off");
    assert_eq!(noted(db, &ours).await, expected);
}
