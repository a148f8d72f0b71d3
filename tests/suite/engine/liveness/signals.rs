//! A commit that the process knows of signals the sequencer at once. Any other commit is found by
//! the next poll, which these tests put off for an hour.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger};
use outbox_runtime::{Outbox, OutboxHandle, OutboxProfile, QueueBuilder};
use outbox_tests::{Engine, LossyProxy, Lost, every_engine, every_server};
use sea_orm::{ConnectOptions, Database, DatabaseConnection, TransactionError, TransactionTrait};
use std::time::Instant;

/// Longer than a sequencer goes on polling after a signal: its nine polls take a quarter of a
/// second on an idle machine.
const AFTER_THE_HOT_WINDOW: Duration = Duration::from_millis(1_500);
/// What "at once" may take on a busy machine; without a signal it is an hour.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A queue that no other test enqueues to, because signals are process-wide. The reconciler of its
/// outbox polls once, at the start.
fn lone_queue(db: &DatabaseConnection, partitions: Partitions) -> (Queue, QueueBuilder) {
    let name = format!("waking-{}", uuid::Uuid::new_v4().simple());
    let queue = Queue::try_of(name, partitions).unwrap();
    let mut profile = OutboxProfile::default();
    profile.reconciler.idle_interval = Duration::from_secs(3_600);
    let builder = Outbox::builder(db.clone())
        .profile(profile)
        .queue(queue.name(), queue.partitions());
    (queue, builder)
}

async fn start(db: &TestDb, seen: &Seen) -> (Queue, OutboxHandle) {
    let (queue, builder) = lone_queue(db.connection(), Partitions::of(2));
    let running = builder.leased(seen.clone()).start().await.unwrap();
    (queue, running)
}

/// Connections on which a commit that has written to the ledger takes 10 ms.
async fn connect_with_slow_commits(db: &TestDb) -> DatabaseConnection {
    match db.engine() {
        Engine::Postgres => {
            db.execute(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_sleep(0.01); RETURN NULL; END'",
            )
            .await;
            db.execute(
                "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger \
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()",
            )
            .await;
        }
        Engine::MySql => {
            let slow = Lost::Time(Duration::from_millis(10));
            let proxy = LossyProxy::start(db.url(), "INSERT INTO ledger", slow).await;
            let mut options = ConnectOptions::new(proxy.url());
            options.max_connections(20).sqlx_logging(false);
            return Database::connect(options).await.unwrap();
        }
        // From the claim on its transaction is the only writer, so the sequencer waits for the
        // commit: nothing becomes ready meanwhile.
        Engine::Sqlite => {}
    }
    db.connection().clone()
}

/// Commits messages in pairs, the second at every moment from the first one's call on to well after
/// its commit. Each must be handled without another poll.
async fn assert_no_signal_is_lost(db: &TestDb, slow: &DatabaseConnection, kind: Kind) {
    let handler = Scripted::new(kind, |_, _| Act::Succeed);
    let (queue, builder) = lone_queue(slow, Partitions::of(1));
    let running = handler.serve(builder).start().await.unwrap();
    for pair in 0..60 {
        let calls = async |count: usize| {
            let began = Instant::now();
            let what = format!("{kind:?}: {count} calls");
            eventually(&what, async || handler.calls().len() >= count).await;
            assert!(
                began.elapsed() < AT_ONCE,
                "{what} took {:?}",
                began.elapsed()
            );
        };
        let sent = [2 * pair, 2 * pair + 1].map(|n| message("k", n));
        let [first, second] = sent;
        enqueue(db.connection(), &queue, first).await.unwrap();
        calls(2 * pair + 1).await;
        tokio::time::sleep(Duration::from_millis(pair as u64 % 20)).await;
        enqueue(db.connection(), &queue, second).await.unwrap();
        calls(2 * pair + 2).await;
    }
    running.stop().await;
}

/// Waits until the signal that `enqueue` gave has come to nothing.
async fn let_the_sequencer_rest() {
    tokio::time::sleep(AFTER_THE_HOT_WINDOW).await;
}

#[every_engine]
async fn a_signal_during_a_commit_is_not_lost(db: &TestDb) {
    create_ledger(db).await;
    let slow = connect_with_slow_commits(db).await;
    assert_no_signal_is_lost(db, &slow, Kind::LeasedEach).await;
    assert_no_signal_is_lost(db, &slow, Kind::TransactionalEach).await;
}

#[every_engine]
async fn the_commit_of_a_begun_transaction_signals_at_once(db: &TestDb) {
    let seen = Seen::default();
    let (queue, running) = start(db, &seen).await;
    let tx = running.outbox().begin().await.unwrap();
    enqueue(&tx, &queue, message("k", 0)).await.unwrap();
    let_the_sequencer_rest().await;
    let began = Instant::now();
    tx.commit().await.unwrap();
    seen.reaches(1).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    running.stop().await;
}

#[every_engine]
async fn a_transaction_signals_at_once_when_its_work_succeeds(db: &TestDb) {
    let seen = Seen::default();
    let (queue, running) = start(db, &seen).await;
    let sent = queue.clone();
    let worked = running.outbox().transaction(|tx| {
        Box::pin(async move {
            enqueue(tx, &sent, message("k", 0)).await?;
            let_the_sequencer_rest().await;
            Ok::<_, outbox::EnqueueError>(Instant::now())
        })
    });
    let began = worked.await.unwrap();
    seen.reaches(1).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    running.stop().await;
}

#[every_engine]
async fn a_transaction_whose_work_fails_leaves_nothing(db: &TestDb) {
    let seen = Seen::default();
    let (queue, running) = start(db, &seen).await;
    for n in 0..20 {
        let sent = queue.clone();
        let worked = running.outbox().transaction(|tx| {
            Box::pin(async move {
                enqueue(tx, &sent, message("k", n)).await.unwrap();
                if n % 2 == 0 {
                    Ok(n)
                } else {
                    Err("changed its mind")
                }
            })
        });
        match worked.await {
            Ok(done) => assert!(done == n && n % 2 == 0, "{done}"),
            Err(TransactionError::Transaction(error)) => {
                assert!(error == "changed its mind" && n % 2 == 1, "{error}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    drained(db).await;
    assert_eq!(seen.by_key()["k"], (0..20).step_by(2).collect::<Vec<_>>());
    running.stop().await;
}

/// With the default profile, and with both kinds of commit. Half of the messages may be late,
/// because other programs may run on the machine.
#[every_engine]
async fn a_lone_message_takes_milliseconds_from_its_commit(db: &TestDb) {
    let seen = Seen::default();
    let running = orders(db.connection())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let mut took = Vec::new();
    for n in 0..15 {
        drained(db).await;
        if n % 2 == 0 {
            let tx = running.outbox().begin().await.unwrap();
            commit(&tx, "k", n).await;
            tx.commit().await.unwrap();
        } else {
            commit(db.connection(), "k", n).await;
        }
        let committed = Instant::now();
        seen.reaches(n + 1).await;
        took.push(committed.elapsed());
    }
    took.sort();
    assert!(took[7] < Duration::from_millis(100), "{took:?}");
    running.stop().await;
}

// On SQLite the sequencer waits for the writer and so for its commit.
#[every_server]
async fn a_commit_without_a_signal_is_found_by_the_next_poll_or_by_a_flush(db: &TestDb) {
    let seen = Seen::default();
    let (queue, running) = start(db, &seen).await;
    let tx = db.connection().begin().await.unwrap();
    enqueue(&tx, &queue, message("k", 0)).await.unwrap();
    let_the_sequencer_rest().await;
    tx.commit().await.unwrap();
    // As long as it would go on polling, had a signal come.
    let_the_sequencer_rest().await;
    assert_eq!(seen.count(), 0, "there is no poll");
    let began = Instant::now();
    running.outbox().flush();
    seen.reaches(1).await;
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    running.stop().await;
}
