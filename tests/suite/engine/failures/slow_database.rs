//! A database that takes most of a lease to answer: no message is charged for that.

use super::*;
use outbox_runtime::{OutboxHandle, TransactionalMessageHandler};
use outbox_tests::{Engine, every_server};
use sea_orm::DatabaseTransaction;

/// More than the 400 ms that a handler has of [`SHORT`].
pub(super) const TOO_LATE: Duration = Duration::from_millis(450);
/// What is left of [`SHORT`] is too little for [`Slow`].
const LATE: Duration = Duration::from_millis(300);

/// Takes three quarters of the time it has, and succeeds.
#[derive(Clone, Default)]
struct Slow(Seen, Arc<Mutex<Vec<u32>>>);

impl Slow {
    async fn take_a_while(&self, message: &OutboxMessage) -> HandlerResult {
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.0.add(message);
        self.1.lock().unwrap().push(message.attempts());
        HandlerResult::Success
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Slow {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        self.take_a_while(message).await
    }
}

#[async_trait::async_trait]
impl TransactionalMessageHandler for Slow {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        message: &OutboxMessage,
        _: &Ctx,
    ) -> HandlerResult {
        self.take_a_while(message).await
    }
}

/// How a consumer works.
#[derive(Clone, Copy)]
enum Way {
    OneByOne,
    ManyKeys,
    Transactional,
}

impl Way {
    async fn start(
        self,
        db: &TestDb,
        lease: LeaseConfig,
        attempts: u32,
        slow: &Slow,
    ) -> OutboxHandle {
        let queue = eager_orders(&db.connect().await);
        let queue = queue.lease(lease).retry(soon(attempts));
        let builder = match self {
            Self::OneByOne => queue.leased(slow.clone()),
            Self::ManyKeys => queue.concurrency(8).leased(slow.clone()),
            Self::Transactional => queue.transactional(slow.clone()),
        };
        builder.start().await.unwrap()
    }
}

/// Makes the database sleep this long whenever it writes a charge.
pub(super) async fn slow_down_charges(db: &TestDb, by: Duration) {
    let seconds = by.as_secs_f64();
    let (sleep, each) = match db.engine() {
        Engine::Postgres => {
            db.execute(&format!(
                "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_sleep({seconds}); RETURN NEW; END'"
            ))
            .await;
            ("EXECUTE FUNCTION slow()".to_owned(), "FOR EACH ROW")
        }
        _ => (format!("BEGIN DO SLEEP({seconds}); END"), "FOR EACH ROW"),
    };
    for (name, event) in [("slow_insert", "INSERT"), ("slow_update", "UPDATE")] {
        let trigger =
            format!("CREATE TRIGGER {name} BEFORE {event} ON outbox_attempt {each} {sleep}");
        db.execute(&trigger).await;
    }
}

pub(super) async fn answer_at_once(db: &TestDb) {
    let of = match db.engine() {
        Engine::Postgres => " ON outbox_attempt",
        _ => "",
    };
    for name in ["slow_insert", "slow_update"] {
        db.execute(&format!("DROP TRIGGER {name}{of}")).await;
    }
}

/// The first message of `k` is that of a process that died with it.
pub(super) async fn seize_as_a_dead_process(db: &TestDb) {
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_epoch = 7, claimed_seq = 1, \
         lease_until = {} WHERE partition_id = {}",
        db.from_now(-1_000),
        partition_id("k")
    ))
    .await;
}

/// A message whose claim died is charged before its handler runs. While the charge takes too long
/// the handler does not run, and the message does not become a dead letter for that.
async fn assert_not_buried(db: &TestDb, way: Way, late: Duration) {
    let slow = Slow::default();
    let start = async || way.start(db, SHORT, 3, &slow).await;
    // Makes the cursors.
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    slow_down_charges(db, late).await;
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
async fn assert_a_stop_charges_no_message(db: &TestDb, way: Way) {
    let slow = Slow::default();
    let start = async || way.start(db, LeaseConfig::default(), 1, &slow).await;
    start().await.stop().await;
    commit(db.connection(), "k", 0).await;
    slow_down_charges(db, TOO_LATE).await;
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

#[every_server]
async fn a_stop_while_many_keys_are_charged_charges_no_message(db: &TestDb) {
    assert_a_stop_charges_no_message(db, Way::ManyKeys).await;
}

#[every_server]
async fn a_claim_that_took_too_long_is_given_back_uncharged(db: &TestDb) {
    assert_not_buried(db, Way::OneByOne, TOO_LATE).await;
}

#[every_server]
async fn a_claim_of_many_keys_that_took_too_long_is_given_back_uncharged(db: &TestDb) {
    assert_not_buried(db, Way::ManyKeys, TOO_LATE).await;
}

/// Its handler would begin, and be dropped in the middle.
#[every_server]
async fn a_claim_that_left_too_little_time_is_given_back_uncharged(db: &TestDb) {
    assert_not_buried(db, Way::OneByOne, LATE).await;
}

#[every_server]
async fn a_transactional_claim_that_left_too_little_time_is_given_back_uncharged(db: &TestDb) {
    assert_not_buried(db, Way::Transactional, LATE).await;
}
