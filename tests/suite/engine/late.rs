//! A database that takes most of a lease to answer charges nobody for that.

use super::*;
use outbox_tests::{Engine, on_every_server};

/// Takes a while, and succeeds.
#[derive(Clone, Default)]
struct Slow(Seen, Arc<Mutex<Vec<u32>>>);

#[async_trait::async_trait]
impl LeasedMessageHandler for Slow {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        tokio::time::sleep(Duration::from_millis(200)).await;
        self.0.add(message);
        self.1.lock().unwrap().push(message.attempts());
        HandlerResult::Success
    }
}

/// Lets every charge of an attempt take longer than a handler has of [`SHORT`].
async fn slow_down_charges(db: &TestDb) {
    let (sleep, each) = match db.engine() {
        Engine::Postgres => {
            db.execute(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_sleep(0.45); RETURN NEW; END'",
            )
            .await;
            ("EXECUTE FUNCTION slow()", "FOR EACH ROW")
        }
        _ => ("BEGIN DO SLEEP(0.45); END", "FOR EACH ROW"),
    };
    for (name, event) in [("slow_insert", "INSERT"), ("slow_update", "UPDATE")] {
        let trigger =
            format!("CREATE TRIGGER {name} BEFORE {event} ON outbox_attempt {each} {sleep}");
        db.execute(&trigger).await;
    }
}

async fn answer_at_once(db: &TestDb) {
    let of = match db.engine() {
        Engine::Postgres => " ON outbox_attempt",
        _ => "",
    };
    for name in ["slow_insert", "slow_update"] {
        db.execute(&format!("DROP TRIGGER {name}{of}")).await;
    }
}

/// The first message of `k` is that of a process that died with it.
async fn seize_as_a_dead_process(db: &TestDb) {
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, claimed_seq = 1, \
         lease_until = {} WHERE partition_id = {}",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
}

/// A message whose claim died is charged before it runs. While that takes too long it is
/// not run, and it is not buried for that.
async fn assert_not_buried(db: &TestDb, concurrency: u32) {
    let slow = Slow::default();
    let start = async || {
        let queue = eager_orders(&db.connect().await)
            .lease(SHORT)
            .retry(soon(3));
        let queue = queue.concurrency(concurrency);
        queue.leased(slow.clone()).start().await.unwrap()
    };
    // Makes the cursors.
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    slow_down_charges(db).await;
    seize_as_a_dead_process(db).await;
    let running = start().await;
    // Many times what it takes to use up three attempts.
    tokio::time::sleep(SHORT.duration * 12).await;
    answer_at_once(db).await;
    drained(db).await;
    running.stop().await;
    let buried = db.texts("SELECT reason FROM outbox_dead_letter").await;
    assert_eq!(buried, Vec::<String>::new());
    assert_eq!(slow.0.by_key()["k"], [0]);
    assert_eq!(*slow.1.lock().unwrap(), [0], "no charge before it ran");
}

/// A stop while a charge is written takes it back.
async fn assert_a_stop_charges_nobody(db: &TestDb, concurrency: u32) {
    let slow = Slow::default();
    let start = async || {
        let queue = eager_orders(&db.connect().await).retry(soon(1));
        let queue = queue.concurrency(concurrency);
        queue.leased(slow.clone()).start().await.unwrap()
    };
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    slow_down_charges(db).await;
    seize_as_a_dead_process(db).await;
    let running = start().await;
    eventually("a slow charge", async || {
        let slow = match db.engine() {
            Engine::Postgres => {
                "SELECT COUNT(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event = 'PgSleep'"
            }
            _ => {
                "SELECT COUNT(*) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND state = 'User sleep'"
            }
        };
        db.number(slow).await > 0
    })
    .await;
    running.stop().await;
    answer_at_once(db).await;
    let charged = "SELECT COUNT(*) FROM outbox_attempt";
    assert_eq!((slow.0.count(), db.number(charged).await), (0, 0));
    let running = start().await;
    drained(db).await;
    running.stop().await;
    let buried = db.texts("SELECT reason FROM outbox_dead_letter").await;
    assert_eq!((buried, slow.0.count()), (Vec::<String>::new(), 1));
}

on_every_server! {
    async fn a_stop_while_many_keys_are_charged_charges_nobody(db: &TestDb) {
        assert_a_stop_charges_nobody(db, 8).await;
    }

    async fn a_claim_that_took_too_long_is_given_back_uncharged(db: &TestDb) {
        assert_not_buried(db, 1).await;
    }

    async fn nor_is_it_charged_among_many_keys(db: &TestDb) {
        assert_not_buried(db, 8).await;
    }
}
