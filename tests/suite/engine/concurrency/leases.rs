//! A process renews its lease as long as it has work. When it loses the lease, it stops.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use outbox_runtime::OutboxProfile;
use outbox_tests::{Engine, every_engine, every_server};
use sea_orm::{ConnectionTrait, TransactionTrait};

/// Renewed after half a second; handlers are cancelled after one.
const LEASE: LeaseConfig = LeaseConfig {
    duration: Duration::from_millis(1_500),
    headroom: Duration::from_millis(500),
};

/// A lock on the cursor that lasts as long as the transaction: other writers of the cursor wait.
async fn lock_cursor(db: &TestDb) -> sea_orm::DatabaseTransaction {
    let tx = db.connection().begin().await.expect("begin");
    tx.execute_unprepared("UPDATE outbox_cursor SET lease_epoch = lease_epoch")
        .await
        .expect("the cursor's lock");
    tx
}

/// Whether the lease is over by the database's clock.
async fn lease_is_over(db: &TestDb) -> bool {
    let now = db.from_now(0);
    let over = format!("SELECT COUNT(*) FROM outbox_cursor WHERE lease_until <= {now}");
    db.number(&over).await == 1
}

/// Takes long with every message but the first of `k1`. References are held by the test, by the
/// engine, by running calls, and for ever by that first call.
struct Long(Arc<()>);

#[async_trait::async_trait]
impl LeasedMessageHandler for Long {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let alive = self.0.clone();
        if message.payload() == b"k1:0" {
            tokio::time::sleep(Duration::from_millis(800)).await;
            std::mem::forget(alive);
        } else {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        HandlerResult::Success
    }
}

#[every_engine]
async fn work_of_several_leases_is_done_once(db: &TestDb) {
    commit_keys(db, 8, 4).await;
    let watch = Watch::taking(Duration::from_millis(500));
    let running = log(db, 4)
        .lease(LEASE)
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    let began = Instant::now();
    drained(db).await;
    assert!(began.elapsed() > LEASE.duration * 2);
    running.stop().await;
    assert_eq!((watch.calls(), watch.done().len()), (32, 32));
}

#[every_engine]
async fn a_process_that_loses_its_lease_drops_its_handlers(db: &TestDb) {
    commit_keys(db, 3, 2).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = log(db, 4)
        .lease(LEASE)
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    gated.entered(3).await;
    let later = db.from_now(60_000);
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'thief', lease_until = {later}, \
            lease_epoch = lease_epoch + 1"
    ))
    .await;
    let stolen = Instant::now();
    eventually("the end of what ran", async || gated.dropped() == 3).await;
    assert!(
        stolen.elapsed() < Duration::from_millis(1_000),
        "after {:?}",
        stolen.elapsed()
    );
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_attempt").await,
        0,
        "no message is charged"
    );
    gated.open();
    db.execute("UPDATE outbox_cursor SET lease_owner = NULL, lease_until = NULL")
        .await;
    drained(db).await;
    running.stop().await;
    assert_eq!(gated.attempts.lock().unwrap().iter().max(), Some(&0));
}

/// A message that waited for its key gets a lease of its own, but not beyond that of its partition
/// if that cannot be renewed.
#[every_engine]
async fn a_hanging_statement_keeps_no_handler_running_after_the_lease(db: &TestDb) {
    commit_keys(db, 2, 2).await;
    let lease = LeaseConfig {
        duration: Duration::from_secs(3),
        headroom: Duration::from_millis(600),
    };
    let alive = Arc::new(());
    let script = Long(alive.clone());
    let running = log(db, 4)
        .lease(lease)
        .leased(script)
        .start()
        .await
        .unwrap();
    // k0:0 holds the cursor, so the end of k1:0 writes nothing; k1:1 begins late.
    eventually("the second of a key", async || {
        Arc::strong_count(&alive) == 5
    })
    .await;
    let lock = lock_cursor(db).await;
    eventually("the end of the lease", async || lease_is_over(db).await).await;
    assert_eq!(
        Arc::strong_count(&alive),
        2 + 1,
        "only what was done is kept"
    );
    lock.rollback().await.expect("rollback");
    running.stop_within(Duration::ZERO).await;
}

/// The statement that hung is done in the end, and with it the lease begins anew.
#[every_engine]
async fn a_lease_that_is_renewed_too_late_is_given_back(db: &TestDb) {
    commit_keys(db, 1, 1).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = log(db, 4)
        .lease(LEASE)
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    gated.entered(1).await;
    let lock = lock_cursor(db).await;
    gated.open();
    eventually("the end of the lease", async || lease_is_over(db).await).await;
    lock.rollback().await.expect("rollback");
    let free = "SELECT COUNT(*) FROM outbox_cursor \
                WHERE processed_seq = 1 AND lease_owner IS NULL AND lease_until IS NULL";
    eventually("a free cursor", async || db.number(free).await == 1).await;
    running.stop().await;
}

/// A server that forgot sequence numbers in a crash may give them to other messages. What was read
/// under them before is then out of date. On a file that stays locked in between, the claiming
/// statement begins afterwards, as it would on a server that is back.
#[test]
fn a_message_renumbered_before_its_claim_is_not_skipped() {
    outbox_tests::run(Engine::Sqlite, true, |db| Box::pin(numbered_anew(db)));
}

async fn numbered_anew(db: &TestDb) {
    let message = |key: &str| NewMessage::new("step", key.to_owned(), format!("{key}:0"));
    let gated = Gated::new(OnCancel::Ignore);
    enqueue(db.connection(), &LOG, message("a")).await.unwrap();
    let running = log(db, 4).leased(gated.clone()).start().await.unwrap();
    gated.entered(1).await;
    // A body without a number, for later.
    let late = Queue::of("late", Partitions::of(1));
    enqueue(db.connection(), &late, message("late"))
        .await
        .unwrap();
    let late = db.number("SELECT MAX(id) FROM outbox_incoming").await;

    // Numbered by another process: it is read when the reconciler says so, soon, and
    // claimed as soon as the lock is gone.
    let tx = db.connection().begin().await.unwrap();
    number_by_hand(db, &tx, message("b")).await;
    tx.commit().await.unwrap();
    let lock = lock_cursor(db).await;
    if db.number("SELECT claimed_seq FROM outbox_cursor").await > 1 {
        // It was quicker than the lock: then the number stays, and there is nothing to see.
        return;
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let id = LOG.id();
    for statement in [
        format!("UPDATE outbox_outgoing SET seq = 3 WHERE partition_id = {id} AND seq = 2"),
        format!("INSERT INTO outbox_outgoing (partition_id, seq, id) VALUES ({id}, 2, {late})"),
        format!("UPDATE outbox_partition SET sequence = 3 WHERE id = {id}"),
        format!("DELETE FROM outbox_incoming WHERE id = {late}"),
    ] {
        lock.execute_unprepared(&statement)
            .await
            .unwrap_or_else(|e| panic!("{statement}: {e}"));
    }
    lock.commit().await.unwrap();
    gated.open();
    eventually("everything", async || {
        let seen = gated.seen.all();
        ["a:0", "b:0", "late:0"]
            .iter()
            .all(|text| seen.iter().any(|seen| seen == text))
    })
    .await;
    running.stop().await;
}

/// As a sequencer of another process would.
async fn number_by_hand(db: &TestDb, tx: &sea_orm::DatabaseTransaction, message: NewMessage) {
    enqueue(tx, &LOG, message).await.expect("enqueue");
    let id = LOG.id();
    for statement in [
        format!(
            "INSERT INTO outbox_outgoing (partition_id, seq, id) \
             SELECT {id}, (SELECT p.sequence + 1 FROM outbox_partition p WHERE p.id = {id}), i.id \
             FROM outbox_incoming i WHERE i.queue_id = {id}"
        ),
        format!("DELETE FROM outbox_incoming WHERE queue_id = {id}"),
        format!("UPDATE outbox_partition SET sequence = sequence + 1 WHERE id = {id}"),
    ] {
        let done = tx.execute_unprepared(&statement).await;
        done.unwrap_or_else(|error| panic!("{:?} {statement}: {error}", db.engine()));
    }
}

#[every_engine]
async fn messages_numbered_by_another_process_are_found_while_a_key_waits(db: &TestDb) {
    commit_keys(db, 1, 1).await;
    let watch = Watch::new(|message| {
        let failed = HandlerResult::retry_after(Duration::from_secs(600), "closed");
        let fails = message.payload() == b"k0:0";
        (
            Duration::ZERO,
            if fails {
                failed
            } else {
                HandlerResult::Success
            },
        )
    });
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    eventually("the failure", async || {
        db.number("SELECT COUNT(*) FROM outbox_attempt").await == 1
    })
    .await;
    let tx = db.connection().begin().await.unwrap();
    number_by_hand(db, &tx, message("k1", 0)).await;
    tx.commit().await.unwrap();
    eventually("the other key", async || watch.done() == ["k1:0"]).await;
    running.stop().await;
}

#[every_server]
async fn connections_that_break_lose_nothing_and_keep_the_order(db: &TestDb) {
    commit_keys(db, 12, 50).await;
    let watch = Watch::taking(Duration::from_millis(5));
    let mut profile = OutboxProfile::low_latency();
    profile.reconciler = profile.reconciler.idle_interval(Duration::from_millis(50));
    let running = Outbox::builder(db.connect().await)
        .profile(profile)
        .queue("log", LOG.partitions())
        .concurrency(6)
        .lease(LEASE)
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    for part in 1..=5 {
        eventually("some progress", async || watch.done().len() >= part * 60).await;
        db.end_connections().await;
    }
    let distinct = || watch.done().into_iter().collect::<BTreeSet<_>>().len();
    eventually("everything", async || distinct() == 600).await;
    eventually("the cursor", async || {
        db.number("SELECT processed_seq FROM outbox_cursor").await == 600
    })
    .await;
    running.stop().await;
    for (key, numbers) in by_key(&watch.done()) {
        let mut first = Vec::new();
        for n in numbers {
            if !first.contains(&n) {
                first.push(n);
            }
        }
        assert!(first.is_sorted(), "{key}: {first:?}");
    }
}

#[every_engine]
async fn a_lease_is_renewed_while_nothing_but_a_failed_key_is_left(db: &TestDb) {
    commit_keys(db, 10, 5).await;
    let watch = Watch::new(|message| {
        let fails = message.payload() == b"k0:0" && message.attempts() == 0;
        let failed = HandlerResult::retry_after(Duration::from_secs(7), "closed");
        (
            Duration::ZERO,
            if fails {
                failed
            } else {
                HandlerResult::Success
            },
        )
    });
    let lease = LeaseConfig {
        duration: Duration::from_secs(4),
        headroom: Duration::from_secs(1),
    };
    let running = log(db, 4)
        .lease(lease)
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    running.stop().await;
    // A process that loses the lease forgets which messages are done ahead of the cursor.
    assert_eq!((watch.done().len(), watch.calls()), (50, 51));
}
