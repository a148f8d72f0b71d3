//! The lease in the database decides at every settlement.

use super::*;
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::create_ledger;
use crate::engine::support::ways::{WAYS, start};
use outbox_tests::{every_engine, every_server};
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::time::Instant;

/// Takes the lease away, as another process would.
const STEAL: &str = "UPDATE outbox_cursor SET lease_owner = 'thief', lease_epoch = lease_epoch + 1, \
    lease_until = NULL";

/// Remembers when its token fired and when it was dropped, the first time.
#[derive(Clone, Default)]
struct Stubborn(Arc<Mutex<Times>>);

#[derive(Default)]
struct Times {
    attempts: Vec<u32>,
    remaining: Duration,
    began: Option<Instant>,
    cancelled: Option<Instant>,
    dropped: Option<Instant>,
}

/// How late timers of this runtime are at worst, on a machine that runs other programs too.
/// Measured times may be that much later.
#[derive(Clone, Default)]
struct Lateness(Arc<Mutex<Duration>>);

impl Lateness {
    fn watch() -> Self {
        let lateness = Self::default();
        let noting = lateness.clone();
        tokio::spawn(async move {
            let pause = Duration::from_millis(5);
            loop {
                let began = Instant::now();
                tokio::time::sleep(pause).await;
                let late = began.elapsed().saturating_sub(pause);
                let mut worst = noting.0.lock().unwrap();
                *worst = late.max(*worst);
            }
        });
        lateness
    }

    fn worst(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

struct OnDrop(Stubborn);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().dropped = Some(Instant::now());
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Stubborn {
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        let first = {
            let mut times = self.0.lock().unwrap();
            times.attempts.push(message.attempts());
            times.attempts.len() == 1
        };
        if first {
            let _on_drop = OnDrop(self.clone());
            {
                let mut times = self.0.lock().unwrap();
                times.began = Some(Instant::now());
                times.remaining = ctx.remaining();
            }
            ctx.cancellation().cancelled().await;
            self.0.lock().unwrap().cancelled = Some(Instant::now());
            std::future::pending::<()>().await;
        }
        HandlerResult::Success
    }
}

#[every_engine]
async fn a_lost_lease_never_acks(db: &TestDb) {
    let gated = Gated::new(OnCancel::Ignore);
    let running = orders(db.connection())
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    gated.entered(1).await;
    db.execute(STEAL).await;
    gated.let_one_through();
    // The acknowledgement is refused and the message comes again.
    gated.entered(2).await;
    assert_eq!(processed(db, "default", "k").await, 0);
    gated.open();
    drained(db).await;
    assert_eq!(gated.seen.all(), ["k:0", "k:0"]);
    running.stop().await;
}

#[every_engine]
async fn a_lost_lease_counts_no_failure_and_buries_nothing(db: &TestDb) {
    let gated = Gated::new(OnCancel::GiveUp);
    let running = eager_orders(db.connection())
        .lease(SHORT)
        .retry(soon(1))
        .leased(gated.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    gated.entered(1).await;
    db.execute(STEAL).await;
    // It gives up when its token fires; with one attempt that would make it a dead letter.
    gated.entered(2).await;
    gated.open();
    drained(db).await;
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox_dead_letter").await,
        0
    );
    assert_eq!(*gated.attempts.lock().unwrap(), [0, 0]);
    running.stop().await;
}

#[every_engine]
async fn an_expired_lease_hands_over_to_another_outbox(db: &TestDb) {
    let (hanging, healthy) = (Gated::new(OnCancel::Block), Seen::default());
    let first = eager_orders(db.connection())
        .lease(SHORT)
        .leased(hanging.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    hanging.entered(1).await;
    let began = Instant::now();
    let second = eager_orders(&db.connect().await)
        .lease(SHORT)
        .leased(healthy.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 1).await;
    healthy.reaches(2).await;
    assert_eq!(healthy.all(), ["k:0", "k:1"]);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    // What the first outbox writes afterwards changes nothing.
    hanging.open();
    commit(db.connection(), "k", 2).await;
    drained(db).await;
    let mut all = [healthy.all(), hanging.seen.all()].concat();
    all.sort();
    assert_eq!(all, ["k:0", "k:0", "k:1", "k:2"]);
    first.stop().await;
    second.stop().await;
}

#[every_engine]
async fn the_cancellation_token_fires_before_the_lease_ends_and_the_future_is_dropped(db: &TestDb) {
    let (stubborn, lateness) = (Stubborn::default(), Lateness::watch());
    let lease = LeaseConfig {
        duration: Duration::from_millis(1_200),
        headroom: Duration::from_millis(600),
    };
    let running = eager_orders(db.connection())
        .lease(lease)
        .retry(soon(3))
        .leased(stubborn.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    drained(db).await;
    running.stop().await;
    let times = stubborn.0.lock().unwrap();
    // The clock runs from the claim, a little before the handler begins.
    let (began, cancelled) = (times.began.unwrap(), times.cancelled.unwrap());
    let dropped = times.dropped.unwrap();
    assert!(
        times.remaining <= Duration::from_millis(600),
        "{:?}",
        times.remaining
    );
    assert!(
        cancelled - began >= times.remaining,
        "{:?}",
        cancelled - began
    );
    let slack = Duration::from_millis(100) + lateness.worst() * 2;
    assert!(
        cancelled - began < times.remaining + slack,
        "{:?}",
        cancelled - began
    );
    let dropped_after = times.remaining + Duration::from_millis(300);
    assert!(dropped - began >= dropped_after, "{:?}", dropped - began);
    assert!(
        dropped - began < dropped_after + slack,
        "{:?}",
        dropped - began
    );
    assert_eq!(times.attempts, [0, 1], "outliving a lease is an attempt");
}

#[every_engine]
async fn a_commit_under_way_when_its_lease_ends_is_not_undone(db: &TestDb) {
    // A first outbox makes queue and cursors. Then another process has the partition for half a
    // second.
    let seen = Seen::default();
    let start = async || {
        eager_orders(&db.connect().await)
            .leased(seen.clone())
            .start()
            .await
            .unwrap()
    };
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    commit(db.connection(), "k", 1).await;
    let partition = partition_id("k");
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'other', lease_epoch = 7, claimed_seq = 1, \
         lease_until = {} WHERE partition_id = {partition}",
        db.from_now(500)
    ))
    .await;
    let running = start().await;
    eventually("numbers", async || {
        db.number("SELECT COUNT(*) FROM outbox_outgoing").await == 2
    })
    .await;
    // That process acknowledges with its writes, but its commit takes long.
    let other = db.connect().await;
    let tx = other.begin().await.unwrap();
    let advance = "UPDATE outbox_cursor SET processed_seq = 1 WHERE lease_owner = 'other'";
    tx.execute_unprepared(advance).await.unwrap();
    eventually("the end of the lease, and time to notice it", async || {
        let over = format!("lease_until < {}", db.from_now(-400));
        db.number(&format!("SELECT COUNT(*) FROM outbox_cursor WHERE {over}"))
            .await
            > 0
    })
    .await;
    tx.commit().await.unwrap();
    seen.reaches(1).await;
    drained(db).await;
    assert_eq!(seen.all(), ["k:1"], "the first one was acknowledged");
    running.stop().await;
}

// While a handler's transaction is open no other connection writes to SQLite.
#[every_server]
async fn a_lost_lease_rolls_the_handlers_writes_back(db: &TestDb) {
    create_ledger(db).await;
    let gated = Gated::new(OnCancel::Ignore);
    let running = eager_orders(db.connection())
        .transactional(gated.clone())
        .start()
        .await
        .unwrap();
    commit(db.connection(), "k", 0).await;
    gated.entered(1).await;
    db.execute(STEAL).await;
    gated.let_one_through();
    gated.entered(2).await;
    assert_eq!(db.number("SELECT COUNT(*) FROM ledger").await, 0);
    gated.open();
    drained(db).await;
    assert_eq!(db.texts("SELECT note FROM ledger").await, ["k:0"]);
    running.stop().await;
}

#[every_server]
async fn a_transaction_that_outlives_its_lease_is_rolled_back(db: &TestDb) {
    create_ledger(db).await;
    let (hanging, healthy) = (Gated::new(OnCancel::Block), Gated::new(OnCancel::Ignore));
    healthy.open();
    let start = async |gated: &Gated| {
        eager_orders(&db.connect().await)
            .lease(SHORT)
            .transactional(gated.clone())
            .start()
            .await
            .unwrap()
    };
    let first = start(&hanging).await;
    commit(db.connection(), "k", 0).await;
    hanging.entered(1).await;
    let second = start(&healthy).await;
    healthy.entered(1).await;
    eventually("its commit", async || {
        processed(db, "default", "k").await == 1
    })
    .await;
    // Now the first one writes, says that all is well, and is refused.
    hanging.open();
    commit(db.connection(), "k", 1).await;
    drained(db).await;
    assert!(first.stop().await.clean);
    assert!(second.stop().await.clean);
    assert_eq!(
        db.texts("SELECT note FROM ledger ORDER BY note").await,
        ["k:0", "k:1"]
    );
}

#[every_engine]
async fn a_claim_says_how_long_its_lease_is(db: &TestDb) {
    create_ledger(db).await;
    for way in WAYS {
        let gated = Gated::new(OnCancel::Ignore);
        let running = start(db, way, &gated).await;
        commit(db.connection(), "k", 0).await;
        gated.entered(1).await;
        let milliseconds = LeaseConfig::default().duration.as_millis();
        let held = format!(
            "SELECT COUNT(*) FROM outbox_cursor WHERE consumer = '{}' \
             AND lease_owner IS NOT NULL AND lease_ms = {milliseconds}",
            way.0
        );
        assert_eq!(db.number(&held).await, 1, "{}", way.0);
        gated.open();
        running.stop().await;
    }
}
