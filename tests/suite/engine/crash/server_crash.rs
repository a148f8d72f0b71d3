//! The database server crashes; bookkeeping that was not on its disk is lost.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::{Engine, PrivateServer, run_at};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// In a transaction: on a bare connection a crash may leave a body without a message.
async fn send(db: &TestDb, key: &str, n: usize) -> Result<(), sea_orm::DbErr> {
    let tx = sea_orm::TransactionTrait::begin(db.connection()).await?;
    enqueue(&tx, &QUEUE, message(key, n)).await?;
    tx.commit().await
}

/// Commits messages until `stop`, some of them across a crash. Returns those whose commit was
/// confirmed. The future must not be dropped: a dropped `begin` leaves its connection in a
/// transaction, which would later read an old snapshot.
async fn produce(db: &TestDb, stop: &AtomicBool) -> BTreeSet<String> {
    let mut confirmed = BTreeSet::new();
    for n in 0.. {
        if stop.load(Ordering::Acquire) {
            break;
        }
        let key = format!("key{}", n % 8);
        if send(db, &key, n).await.is_ok() {
            confirmed.insert(format!("{key}:{n}"));
        } else {
            // What became of it is unknown; the next one may work again.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    confirmed
}

mod a_crash_of_the_server_loses_nothing_and_repeats_no_effect {
    use super::*;

    #[test]
    fn postgres() {
        crash(Engine::Postgres);
    }

    #[test]
    fn mysql() {
        crash(Engine::MySql);
    }
}

fn crash(engine: Engine) {
    let server = PrivateServer::start(engine);
    let url = server.url().to_owned();
    run_at(engine, &url, |db| {
        Box::pin(async move { case(db, &server).await })
    });
}

async fn case(db: &TestDb, server: &PrivateServer) {
    create_ledger(db).await;
    let (seen, book) = (Seen::default(), Gated::new(OnCancel::Ignore));
    book.open();
    let lease = LeaseConfig {
        duration: Duration::from_secs(1),
        headroom: Duration::from_millis(300),
    };
    let running = Outbox::builder(db.connect().await)
        .profile(OutboxProfile::low_latency())
        .queue("orders", QUEUE.partitions())
        .lease(lease)
        .leased(seen.clone())
        .queue("orders", QUEUE.partitions())
        .consumer("gated")
        .lease(lease)
        .transactional(book.clone())
        .start()
        .await
        .unwrap();
    let stop = AtomicBool::new(false);
    let crashing = async {
        for _ in 0..2 {
            let before = seen.count();
            seen.reaches(before + 200).await;
            server.crash().await;
        }
        let before = seen.count();
        seen.reaches(before + 200).await;
        stop.store(true, Ordering::Release);
    };
    let (confirmed, ()) = tokio::join!(produce(db, &stop), crashing);
    drained(db).await;
    let delivered: BTreeSet<String> = seen.all().into_iter().collect();
    assert!(
        delivered.is_superset(&confirmed),
        "committed means delivered"
    );
    let booked = db.texts("SELECT note FROM ledger").await;
    let distinct: BTreeSet<String> = booked.iter().cloned().collect();
    assert_eq!(distinct.len(), booked.len(), "exactly once");
    assert_eq!(distinct, delivered, "each consumer gets the same");
    running.stop().await;
}
