//! What an outbox costs that has nothing to do.

use crate::meter::Meter;
use crate::workload::Succeed;
use outbox_runtime::{Outbox, Partitions};
use outbox_tests::{Engine, TestDb};
use std::time::Duration;

pub(crate) async fn minute(db: &TestDb) {
    if db.engine() == Engine::Postgres {
        db.execute("CREATE EXTENSION pg_stat_statements").await;
    }
    // Other tests use these servers too: only what is asked by this process counts.
    let meter = Meter::of_client(db).await;
    let running = Outbox::builder(meter.connect_outbox().await)
        .queue("costs-idle", Partitions::of(16))
        .leased(Succeed::default())
        .start()
        .await
        .expect("start");
    // What follows a start is over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = meter.read().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = meter.read().await;
    running.stop().await;
    let mut table = meter.table();
    table.add("an idle minute", &before, &after, 1.0);
    table.assert_pinned();
}
