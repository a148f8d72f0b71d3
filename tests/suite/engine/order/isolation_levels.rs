//! The user's database may have any default isolation.

use super::*;
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use crate::engine::support::shared_keys::Keys;
use outbox_runtime::{Outbox, OutboxProfile};
use outbox_tests::every_server;

async fn assert_works(db: &TestDb, level: &'static str) {
    create_ledger(db).await;
    let seen = Seen::default();
    let book = Scripted::new(Kind::TransactionalEach, |_, _| Act::Succeed);
    let mut running = Vec::new();
    for _ in 0..2 {
        let builder = Outbox::builder(db.connect_with_isolation(level).await)
            .profile(OutboxProfile::low_latency())
            .queue("orders", QUEUE.partitions())
            .leased(seen.clone())
            .queue("orders", QUEUE.partitions())
            .retry(soon(1_000));
        running.push(book.serve(builder).start().await.unwrap());
    }
    let mut keys = Keys::new(12);
    let producers = [db.connect_with_isolation(level).await];
    keys.produce(&producers, &QUEUE, 8, 50).await;
    drained(db).await;
    keys.assert_in_order(&seen.by_key());
    let mut booked = ledger(db, "TransactionalEach").await;
    assert_eq!(booked.len(), keys.total(), "exactly once");
    booked.dedup();
    assert_eq!(booked.len(), keys.total(), "and all of them");
    for outbox in running {
        outbox.stop().await;
    }
}

#[every_server]
async fn a_database_of_repeatable_read_works(db: &TestDb) {
    assert_works(db, "REPEATABLE READ").await;
}

#[every_server]
async fn a_database_of_serializable_transactions_works(db: &TestDb) {
    assert_works(db, "SERIALIZABLE").await;
}
