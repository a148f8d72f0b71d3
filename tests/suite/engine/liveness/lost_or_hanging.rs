//! Nothing waits for long, whatever is lost or hangs.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use crate::engine::support::vacuum_passes::bodies_of;
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::{Engine, every_engine, every_server};
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::time::Instant;

/// No other test enqueues to it: signals are process-wide.
const QUIET: Queue = Queue::of("quiet", Partitions::of(4));

/// Commits a message without a signal: it was enqueued elsewhere and moved here.
async fn commit_silently(db: &TestDb, text: &str) {
    const DECOY: Queue = Queue::of("decoy", Partitions::of(4));
    let tx = db.connection().begin().await.unwrap();
    let sent = NewMessage::new("step", "k", text.to_owned());
    enqueue(&tx, &DECOY, sent).await.unwrap();
    let (to, from) = (QUIET.id(), DECOY.id());
    let moved = format!("UPDATE outbox_incoming SET queue_id = {to} WHERE queue_id = {from}");
    tx.execute_unprepared(&moved).await.unwrap();
    tx.commit().await.unwrap();
}

/// Messages whose signals were lost arrive within the interval, one after another.
async fn assert_found_within(db: &TestDb, profile: OutboxProfile) {
    let interval = profile.reconciler.idle_interval;
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .profile(profile)
        .queue("quiet", QUIET.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    // The first comes in the hot window after the start; it must be over.
    enqueue(db.connection(), &QUIET, message("k", 0))
        .await
        .unwrap();
    drained(db).await;
    for n in 1..4 {
        let began = Instant::now();
        commit_silently(db, &format!("k:{n}")).await;
        seen.reaches(n + 1).await;
        let took = began.elapsed();
        // A poll takes a moment too, on a machine that runs other tests.
        assert!(
            took < interval + Duration::from_millis(500),
            "it took {took:?}"
        );
    }
    running.stop().await;
}

#[every_engine]
async fn a_message_whose_signal_was_lost_is_found_within_a_short_interval(db: &TestDb) {
    let mut profile = OutboxProfile::default();
    profile.reconciler.idle_interval = Duration::from_millis(200);
    assert_found_within(db, profile).await;
}

#[every_engine]
async fn a_message_whose_signal_was_lost_is_found_within_the_default_interval(db: &TestDb) {
    assert_eq!(
        OutboxProfile::default().reconciler.idle_interval,
        Duration::from_millis(1_100)
    );
    assert_found_within(db, OutboxProfile::default()).await;
}

#[every_engine]
async fn a_queue_whose_handlers_hang_does_not_stop_another(db: &TestDb) {
    create_ledger(db).await;
    let (leased, transactional) = (Gated::new(OnCancel::Ignore), Gated::new(OnCancel::Ignore));
    let seen = Seen::default();
    let mut builder = Outbox::builder(db.connection().clone())
        .queue("stuck", Partitions::of(64))
        .leased(leased.clone());
    // On SQLite an open transaction stops every other writer; that is its nature.
    let servers = db.engine() != Engine::Sqlite;
    if servers {
        builder = builder
            .queue("stuck-too", Partitions::of(64))
            .transactional(transactional.clone());
    }
    let running = builder
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for partition in 0..64 {
        for name in ["stuck", "stuck-too"] {
            let queue = Queue::of(name, Partitions::of(64));
            let sent = message("k", partition as usize).to_partition(partition);
            enqueue(db.connection(), &queue, sent).await.unwrap();
        }
    }
    leased.entered(64).await;
    if servers {
        transactional.entered(1).await;
    }
    let began = Instant::now();
    for n in 0..50 {
        commit(db.connection(), &format!("key{}", n % 5), n).await;
    }
    seen.reaches(50).await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    leased.open();
    transactional.open();
    running.stop().await;
}

#[every_server]
async fn a_long_open_transaction_blocks_no_other_and_is_delivered_in_the_end(db: &TestDb) {
    let seen = Seen::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let open = db.connection().begin().await.unwrap();
    commit(&open, "late", 0).await;
    for n in 0..20 {
        for key in ["late-neighbour", "a", "b", "c", "d"] {
            commit(db.connection(), key, n).await;
        }
    }
    seen.reaches(100).await;
    assert!(!seen.by_key().contains_key("late"));
    eventually("vacuum", async || bodies_of(db, "step").await == 0).await;
    // What its key gets while it is open may come before it, what comes
    // after its commit may not.
    commit(db.connection(), "late", 1).await;
    seen.reaches(101).await;
    open.commit().await.unwrap();
    commit(db.connection(), "late", 2).await;
    drained(db).await;
    let keys = seen.by_key();
    assert_eq!(keys["late"], [1, 0, 2]);
    assert_eq!(keys["late-neighbour"], (0..20).collect::<Vec<_>>());
    assert_eq!(seen.count(), 103);
    running.stop().await;
}

#[every_server]
async fn lost_connections_lose_no_message(db: &TestDb) {
    create_ledger(db).await;
    let own = db.connect().await;
    let (seen, book) = (Seen::default(), Gated::new(OnCancel::Ignore));
    book.open();
    let lease = LeaseConfig {
        duration: Duration::from_secs(1),
        headroom: Duration::from_millis(300),
    };
    let running = Outbox::builder(own)
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .lease(lease)
        .batch(3)
        .leased(seen.clone())
        .queue("orders", QUEUE.partitions())
        .consumer("gated")
        .lease(lease)
        .batch(3)
        .transactional(book.clone())
        .start()
        .await
        .unwrap();
    let mut sent = 0;
    for round in 1..=4 {
        for _ in 0..150 {
            commit(db.connection(), &format!("key{}", sent % 8), sent).await;
            sent += 1;
        }
        seen.reaches(sent - 100).await;
        if round < 4 {
            db.end_connections().await;
            // Ours are gone as well: the pool notices when it is used.
            eventually("a connection", async || {
                db.connection().execute_unprepared("SELECT 1").await.is_ok()
            })
            .await;
        }
    }
    drained(db).await;
    let mut all = seen.all();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), sent, "at least once");
    let mut booked = db.texts("SELECT note FROM ledger").await;
    assert_eq!(booked.len(), sent, "exactly once");
    booked.sort();
    assert_eq!(booked, all);
    running.stop().await;
}
