//! What delivering costs, counted by PostgreSQL.

use super::*;
use crate::engine::support::statement_counts::{calls, count_statements, listed};
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::postgres;

/// Only this test's queues, because signals are process-wide.
const BUSY: Queue = Queue::of("budget-busy", Partitions::of(1));

const SEQUENCER: &str = "query LIKE '%DELETE FROM outbox_incoming%'";
const CLAIM: &str = "query LIKE '%lease_epoch = %lease_epoch + CASE%'";
const RECONCILER: &str = "query LIKE '%outbox_queue q%UNION ALL%'";

#[postgres]
async fn a_busy_leased_partition_takes_one_statement_per_batch(db: &TestDb) {
    count_statements(db).await;
    commit_many(db, &BUSY, "k", 0..3_000).await;
    let seen = Seen::default();
    let running = Outbox::builder(db.connect().await)
        .queue(BUSY.name(), BUSY.partitions())
        .batch(100)
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let at_start = calls(db, "query LIKE '%outbox_%'").await;
    seen.reaches(3_000).await;
    drained(db).await;
    // Counted before its parts, which may only have grown since.
    let all = calls(db, "query LIKE '%outbox_%'").await - at_start;
    let claims = calls(db, CLAIM).await;
    assert!(
        (31..=40).contains(&claims),
        "{claims} claims for 30 batches"
    );
    // Three full passes, and the polls before it rests.
    let passes = calls(db, SEQUENCER).await;
    assert!((4..=24).contains(&passes), "{passes} passes for 3 batches");
    // Besides only the reconciler and vacuum, and this test's own counting.
    let vacuum = calls(db, "query LIKE '%DELETE FROM outbox_body%'").await;
    let looks = calls(db, RECONCILER).await;
    let counting = calls(db, "query LIKE 'SELECT COUNT(*) FROM outbox_%'").await;
    assert!(vacuum <= 8, "{vacuum} passes of vacuum");
    // Rare housekeeping begins with the start: that the consumer was seen.
    let known = claims + passes + vacuum + looks + counting + 1;
    assert!(
        all <= known,
        "{all} statements, {known} expected: {}",
        listed(db).await
    );
    running.stop().await;
    assert_eq!(seen.by_key()["k"], (0..3_000).collect::<Vec<_>>());
}

#[postgres]
async fn an_idle_outbox_of_64_partitions_takes_one_statement_per_interval(db: &TestDb) {
    count_statements(db).await;
    let idle = Queue::of("budget-idle", Partitions::of(64));
    let seen = Seen::default();
    let mut profile = OutboxProfile::default();
    profile.reconciler.idle_interval = Duration::from_millis(100);
    let running = Outbox::builder(db.connect().await)
        .profile(profile)
        .queue(idle.name(), idle.partitions())
        .leased(seen.clone())
        .queue(idle.name(), idle.partitions())
        .consumer("second")
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for n in 0..64 {
        let sent = message("k", n).to_partition(u32::try_from(n).unwrap());
        enqueue(db.connection(), &idle, sent).await.unwrap();
    }
    seen.reaches(128).await;
    drained(db).await;
    // The sequencer's last polls are over when nothing but the reconciler has run for five
    // intervals.
    let others = format!("NOT ({RECONCILER})");
    eventually("rest", async || {
        let (before, looks) = (calls(db, &others).await, calls(db, RECONCILER).await);
        eventually("five looks", async || {
            calls(db, RECONCILER).await >= looks + 5
        })
        .await;
        calls(db, &others).await == before
    })
    .await;
    let (before, looks) = (calls(db, "true").await, calls(db, RECONCILER).await);
    eventually("twenty looks", async || {
        calls(db, RECONCILER).await >= looks + 20
    })
    .await;
    let (after, looks) = (calls(db, "true").await, calls(db, RECONCILER).await - looks);
    // Now and then two consumers note that they are alive, and vacuum polls.
    assert!(
        after - before <= looks + 4,
        "{} for {looks} intervals",
        after - before
    );
    running.stop().await;
}

/// PostgreSQL plans a statement anew each time if it takes a general plan for dearer than
/// one for these very values. For our large statements that costs more than running them.
#[postgres]
async fn a_claim_and_a_pass_of_the_sequencer_are_not_planned_each_time(db: &TestDb) {
    count_statements(db).await;
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET \
         pg_stat_statements.track_planning = on', current_database()); END $$",
    )
    .await;
    let planned = Queue::of("budget-planned", Partitions::of(4));
    let seen = Seen::default();
    let running = Outbox::builder(db.connect().await)
        .queue(planned.name(), planned.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for n in 0..300 {
        let sent = message(&format!("k{n}"), n);
        enqueue(db.connection(), &planned, sent).await.unwrap();
        seen.reaches(n + 1).await;
    }
    running.stop().await;
    for kind in [SEQUENCER, CLAIM] {
        let plans = db
            .number(&format!(
                "SELECT COALESCE(SUM(plans), 0)::bigint FROM pg_stat_statements \
                 WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND query NOT LIKE '%pg_stat_statements%' AND ({kind})"
            ))
            .await;
        let calls = calls(db, kind).await;
        assert!(calls >= 300, "{calls} calls");
        // Six for each connection and form of the statement.
        assert!(
            (1..=calls / 3).contains(&plans),
            "{plans} plans for {calls} calls: {kind}"
        );
    }
}
