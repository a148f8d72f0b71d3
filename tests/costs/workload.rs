//! What is measured: one thing at a time, in the order and number that is written here, by
//! an outbox that does nothing by itself.

use crate::figures::Table;
use crate::meter::Meter;
use outbox::testing::TestOutbox;
use outbox_runtime::{
    Ctx, HandlerResult, LeasedMessageHandler, NewMessage, Outbox, OutboxMessage, Partitions, Queue,
    RetryPolicy, TransactionalMessageHandler, enqueue, enqueue_batch,
};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, Statement, TransactionTrait,
};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LEASED: Queue = Queue::of("costs-leased", Partitions::of(1));
const TRANSACTIONAL: Queue = Queue::of("costs-transactional", Partitions::of(1));
const FAILING: Queue = Queue::of("costs-failing", Partitions::of(1));

/// As many as the profile claims at a time.
const BATCH: u32 = 100;

/// How often something is done before it is counted: then every connection has prepared and
/// planned its statements.
const WARM_UP: u32 = 30;

/// How the engine is made worse, to see whether that is noticed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waste {
    Nothing,
    /// One more for every batch.
    RoundTrips,
}

/// Does nothing, or runs a statement for every batch that no part of the engine needs.
#[derive(Default)]
pub(crate) struct Succeed {
    wasteful: Option<DatabaseConnection>,
    calls: AtomicU32,
}

impl Succeed {
    fn new(waste: Waste, db: &DatabaseConnection) -> Self {
        Self {
            wasteful: (waste == Waste::RoundTrips).then(|| db.clone()),
            calls: AtomicU32::new(0),
        }
    }

    async fn call(&self) -> HandlerResult {
        let first_of_batch = self
            .calls
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(BATCH);
        if let Some(db) = self.wasteful.as_ref().filter(|_| first_of_batch) {
            let nothing = Statement::from_string(db.get_database_backend(), "SELECT 1");
            db.query_one_raw(nothing).await.expect("SELECT 1");
        }
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Succeed {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.call().await
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Succeed {
    async fn handle(&self, _: &DatabaseTransaction, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.call().await
    }
}

/// The first time.
struct Fail;

#[async_trait::async_trait]
impl LeasedMessageHandler for Fail {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        match message.attempts() {
            0 => HandlerResult::retry("the first time"),
            _ => HandlerResult::Success,
        }
    }
}

/// About 200 bytes, like those of the benchmarks.
fn message(n: usize) -> NewMessage {
    NewMessage::new("cost", format!("key-{}", n % 100), "x".repeat(200))
}

/// One transaction with so many messages.
async fn send(db: &DatabaseConnection, queue: &Queue, messages: usize) {
    let tx = db.begin().await.expect("begin");
    let sent = match messages {
        1 => enqueue(&tx, queue, message(1)).await.map(drop),
        many => {
            let many = (0..many).map(message);
            enqueue_batch(&tx, queue, many).await.map(drop)
        }
    };
    sent.expect("enqueue");
    tx.commit().await.expect("commit");
}

/// One outbox of each kind, and the table under way.
struct Measurement<'a> {
    meter: &'a Meter,
    table: Table,
    producer: DatabaseConnection,
    leased: TestOutbox,
    transactional: TestOutbox,
    failing: TestOutbox,
}

/// Counts everything.
pub(crate) async fn measure(meter: &Meter, waste: Waste) -> Table {
    let queue = async |queue: Queue| {
        let db = meter.connect_outbox().await;
        let succeed = Succeed::new(waste, &db);
        let builder = Outbox::builder(db).queue(queue.name(), queue.partitions());
        (builder, succeed)
    };
    let (leased, succeed) = queue(LEASED).await;
    let leased = TestOutbox::of(leased.leased(succeed)).await;
    let (transactional, succeed) = queue(TRANSACTIONAL).await;
    let transactional = TestOutbox::of(transactional.transactional(succeed)).await;
    let soon = RetryPolicy {
        max_attempts: 3,
        base: Duration::from_millis(1),
        max: Duration::from_millis(1),
        jitter: false,
    };
    let (failing, _) = queue(FAILING).await;
    let failing = TestOutbox::of(failing.retry(soon).leased(Fail)).await;
    let mut measurement = Measurement {
        meter,
        table: meter.table(),
        producer: meter.connect().await,
        leased,
        transactional,
        failing,
    };
    measurement.producers().await;
    measurement.batches().await;
    measurement.lone_messages().await;
    measurement.vacuum().await;
    measurement.table
}

impl Measurement<'_> {
    async fn producers(&mut self) {
        let db = &self.producer.clone();
        for (what, messages, times) in [
            ("a transaction with 1 message", 1, 200),
            ("a transaction with 100", 100, 20),
        ] {
            let work = async |_: &Self| send(db, &LEASED, messages).await;
            self.repeat(what, times, work).await;
        }
        self.leased.pass().await;
        self.leased.vacuum().await;
    }

    /// A few at a time: after a second of work a turn ends, also on a slow machine.
    async fn batches(&mut self) {
        let db = &self.producer.clone();
        for (what, queue, outbox) in [
            ("a leased batch of 100", LEASED, &self.leased),
            (
                "a transactional batch of 100",
                TRANSACTIONAL,
                &self.transactional,
            ),
        ] {
            for _ in 0..WARM_UP {
                send(db, &queue, 200).await;
                outbox.pass().await;
            }
            let mut spent = Vec::new();
            for _ in 0..5 {
                for _ in 0..4 {
                    send(db, &queue, 100).await;
                }
                let before = self.meter.read().await;
                outbox.pass().await;
                let after = self.meter.read().await;
                spent.resize(after.len(), 0.0);
                for ((spent, before), after) in spent.iter_mut().zip(before).zip(after) {
                    *spent += after - before;
                }
            }
            let nothing = vec![0.0; spent.len()];
            self.table.add(what, &nothing, &spent, 20.0);
        }
        self.leased.vacuum().await;
    }

    async fn lone_messages(&mut self) {
        let db = &self.producer.clone();
        let lone = async |this: &Self| {
            send(db, &LEASED, 1).await;
            this.leased.pass().await;
        };
        self.repeat("a lone message, end to end", 100, lone).await;
        let failed = async |this: &Self| {
            send(db, &FAILING, 1).await;
            this.failing.pass().await;
            // Until it is due.
            tokio::time::sleep(Duration::from_millis(5)).await;
            this.failing.pass().await;
        };
        self.repeat("one that fails once", 50, failed).await;
    }

    async fn vacuum(&mut self) {
        let db = &self.producer.clone();
        self.leased.vacuum().await;
        for _ in 0..WARM_UP {
            send(db, &LEASED, 100).await;
            self.leased.pass().await;
            self.leased.vacuum().await;
        }
        for _ in 0..20 {
            send(db, &LEASED, 100).await;
        }
        self.leased.pass().await;
        let before = self.meter.read().await;
        assert_eq!(self.leased.vacuum().await, 2_000);
        let after = self.meter.read().await;
        self.table.add("deleting 100", &before, &after, 20.0);
    }

    /// Does something without counting, then so many times.
    async fn repeat(&mut self, what: &str, times: u32, work: impl AsyncFn(&Self)) {
        for _ in 0..WARM_UP {
            work(self).await;
        }
        let before = self.meter.read().await;
        for _ in 0..times {
            work(self).await;
        }
        let after = self.meter.read().await;
        self.table.add(what, &before, &after, times.into());
    }
}
