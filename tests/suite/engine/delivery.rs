//! Committed means delivered; rolled back means never seen.

use super::*;
use outbox_runtime::{ConfigError, Outbox};
use outbox_tests::every_engine;
use sea_orm::TransactionTrait;

#[every_engine]
async fn what_is_committed_is_delivered_once_and_nothing_else(db: &TestDb) {
    let seen = Seen::default();
    for n in 0..50 {
        commit(db.connection(), "before", n).await;
    }
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for n in 0..50 {
        let tx = db.connection().begin().await.unwrap();
        commit(&tx, "plain", n).await;
        tx.commit().await.unwrap();
        let tx = db.connection().begin().await.unwrap();
        commit(&tx, "undone", n).await;
        tx.rollback().await.unwrap();
        let tx = running.outbox().begin().await.unwrap();
        commit(&tx, "woken", n).await;
        tx.commit().await.unwrap();
    }
    seen.reaches(150).await;
    drained(db).await;
    let whole: Vec<usize> = (0..50).collect();
    let keys = seen.by_key();
    assert_eq!(
        keys.keys().collect::<Vec<_>>(),
        ["before", "plain", "woken"]
    );
    assert!(keys.values().all(|numbers| *numbers == whole), "{keys:?}");
    assert!(running.stop().await.clean);
}

#[every_engine]
async fn a_handler_sees_what_was_enqueued(db: &TestDb) {
    #[derive(Clone, Default)]
    struct Keep(Arc<Mutex<Vec<OutboxMessage>>>);
    #[async_trait::async_trait]
    impl LeasedMessageHandler for Keep {
        async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
            assert!(ctx.remaining() > Duration::from_secs(20));
            self.0.lock().unwrap().push(message.clone());
            HandlerResult::Success
        }
    }
    let keep = Keep::default();
    let options = outbox::EnqueueOptions::new().header("trace", "abc");
    let sent = NewMessage::new("step", vec![0xff_u8, 0], vec![1_u8, 2, 3]).with(options);
    let before = std::time::SystemTime::now();
    let id = enqueue(db.connection(), &QUEUE, sent).await.unwrap();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(keep.clone())
        .start()
        .await
        .unwrap();
    eventually("the message", async || keep.0.lock().unwrap().len() == 1).await;
    let message = keep.0.lock().unwrap()[0].clone();
    assert_eq!(message.id(), id);
    assert_eq!((message.queue(), message.event_type()), ("orders", "step"));
    assert_eq!(
        (message.key(), message.payload()),
        (&[0xff, 0][..], &[1, 2, 3][..])
    );
    assert_eq!(message.partition(), QUEUE.partition_of_key(&[0xff, 0]));
    assert_eq!((message.sequence(), message.attempts()), (1, 0));
    assert_eq!(message.headers().get("trace"), Some("abc"));
    let age = message
        .enqueued_at()
        .duration_since(before)
        .unwrap_or_else(|e| e.duration());
    assert!(age < Duration::from_secs(30), "{age:?}");
    running.stop().await;
}

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
