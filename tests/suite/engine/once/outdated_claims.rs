//! A claim on PostgreSQL that began before another process's settlement and locks the cursor after
//! it. The claim must not use what it read before.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted};
use outbox_runtime::Outbox;
use outbox_tests::postgres;
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::time::Instant;

/// Makes every claim of connections opened from now on wait, after its snapshot is taken and before
/// it locks the cursor, while advisory lock 7 is held. A lease that is not free makes the claim ask
/// for the time.
async fn hold_claims_up(db: &TestDb) {
    db.execute(
        "CREATE SCHEMA slow; \
         CREATE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$ \
         BEGIN \
            IF current_query() LIKE '%lease_epoch = %lease_epoch + CASE%' THEN \
                PERFORM pg_advisory_xact_lock_shared(7); \
            END IF; \
            RETURN pg_catalog.clock_timestamp(); \
         END $$; \
         DO $$ BEGIN EXECUTE format( \
            'ALTER DATABASE %I SET search_path = slow, public, pg_catalog', current_database() \
         ); END $$;",
    )
    .await;
}

#[postgres]
async fn a_claim_that_began_before_a_failure_was_written_does_not_overlook_it(db: &TestDb) {
    let handler = Scripted::new(Kind::LeasedEach, |_, _| Act::Succeed);
    let start = async || {
        let queue = Outbox::builder(db.connect().await).queue("orders", QUEUE.partitions());
        handler.serve(queue).start().await.unwrap()
    };
    // Makes the cursors. Then another process has the message; its lease is over, but it is still
    // at work.
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    let partition = partition_id("k");
    let cursor = format!("partition_id = {partition} AND consumer = 'LeasedEach'");
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'other', lease_epoch = 7, claimed_seq = 1, \
         lease_until = {} WHERE {cursor}",
        db.from_now(-1_000)
    ))
    .await;
    hold_claims_up(db).await;
    let gate = db.connection().begin().await.unwrap();
    gate.execute_unprepared("SELECT pg_advisory_xact_lock(7)")
        .await
        .unwrap();
    let running = start().await;
    eventually("a claim under way", async || {
        let waiting = "SELECT COUNT(*) FROM pg_locks JOIN pg_database d ON d.oid = database \
            WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()";
        db.number(waiting).await > 0
    })
    .await;
    // The other process writes that the message failed, and when it is due.
    let delay = Duration::from_secs(2);
    let settle = db.connection().begin().await.unwrap();
    let give_back = format!(
        "UPDATE outbox_cursor SET claimed_seq = 0, lease_epoch = 8, lease_owner = NULL, \
         lease_until = NULL WHERE {cursor} AND lease_epoch = 7"
    );
    let failed = format!(
        "INSERT INTO outbox_attempt (partition_id, consumer, seq, failures, not_before) \
         VALUES ({partition}, 'LeasedEach', 1, 1, {})",
        db.from_now(2_000)
    );
    let given = settle.execute_unprepared(&give_back).await.unwrap();
    assert_eq!(given.rows_affected(), 1);
    settle.execute_unprepared(&failed).await.unwrap();
    settle.commit().await.unwrap();
    let began = Instant::now();
    gate.commit().await.unwrap();
    eventually("the message", async || !handler.calls().is_empty()).await;
    let calls = handler.calls();
    assert_eq!(calls[0].attempts, 1, "the failure counts");
    // It was due that long after it was written, a moment before `began`.
    let waited = calls[0].at - began;
    assert!(waited > delay / 2, "it waits its backoff out: {waited:?}");
    drained(db).await;
    assert_eq!(handler.calls().len(), 1);
    running.stop().await;
}
