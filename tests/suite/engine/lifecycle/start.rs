//! A start checks everything, reports every problem at once, and registers what it serves.

use super::*;
use outbox_runtime::{ConfigError, Outbox};
use outbox_tests::every_engine;

#[every_engine]
async fn every_problem_of_a_start_is_reported_at_once(db: &TestDb) {
    let seen = Seen::default();
    let lease = LeaseConfig {
        duration: Duration::from_secs(1),
        headroom: Duration::from_secs(1),
    };
    let error = Outbox::builder(db.connection().clone())
        .processor_tuning(
            outbox_runtime::OutboxProfile::default()
                .processor
                .batch_size(0),
        )
        .handlers_per_queue(0)
        .transactions_per_queue(0)
        .queue("bad name", Partitions::of(1))
        .leased(seen.clone())
        .queue("orders", Partitions::of(4))
        .lease(lease)
        .leased(seen.clone())
        .queue("orders", Partitions::of(8))
        .leased(seen.clone())
        .start()
        .await
        .err()
        .expect("problems");
    assert_eq!(error.problems().len(), 7, "{error}");
    for part in [
        "bad name",
        "headroom",
        "batch_size",
        "handlers_per_queue: it is 0",
        "transactions_per_queue: it is 0",
        "two handlers",
        "4 partitions by",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part} is missing in: {error}"
        );
    }
}

#[every_engine]
async fn a_queue_keeps_its_partitions_and_a_consumer_its_mode(db: &TestDb) {
    let start = async |partitions, transactional: bool| {
        let queue =
            Outbox::builder(db.connection().clone()).queue("orders", Partitions::of(partitions));
        let builder = if transactional {
            queue.transactional(Ledger)
        } else {
            queue.leased(Seen::default())
        };
        builder.start().await
    };
    start(4, false).await.unwrap().stop().await;
    start(4, false).await.unwrap().stop().await;
    let error = start(8, false).await.err().expect("another count");
    assert!(matches!(
        &error.problems()[0],
        ConfigError::PartitionCountMismatch {
            expected: 8,
            found: 4,
            ..
        }
    ));
    let error = start(4, true).await.err().expect("another mode");
    assert!(
        matches!(&error.problems()[0], ConfigError::ModeMismatch { .. }),
        "{error}"
    );
}

#[every_engine]
async fn processes_that_start_at_once_all_get_every_partition(db: &TestDb) {
    let seen = Seen::default();
    let starts = (0..6).map(|_| async {
        let own = db.connect().await;
        Outbox::builder(own)
            .queue("orders", Partitions::of(64))
            .leased(seen.clone())
            .start()
            .await
            .unwrap()
    });
    let running = futures_util::future::join_all(starts).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_partition").await, 64);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_cursor").await, 64);
    for process in running {
        assert!(process.stop().await.clean);
    }
}

#[every_engine(empty)]
async fn a_database_without_tables_is_refused_at_start(db: &TestDb) {
    let error = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(Seen::default())
        .start()
        .await
        .err()
        .expect("no tables");
    assert!(
        error.to_string().contains("outbox::migrate(&db)"),
        "{error}"
    );
}

/// Does nothing, in a transaction.
#[derive(Clone, Default)]
struct Ledger;

#[async_trait::async_trait]
impl outbox_runtime::TransactionalMessageHandler for Ledger {
    async fn handle(
        &self,
        _: &sea_orm::DatabaseTransaction,
        _: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        HandlerResult::Success
    }
}
