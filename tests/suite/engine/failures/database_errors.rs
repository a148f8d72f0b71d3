//! An error of the database is charged to a message only if the message caused it.

use super::*;
use crate::captured_log::{lines, listen};
use crate::engine::support::gated_handler::{Gated, OnCancel};
use crate::engine::support::scripted_handler::{Act, Kind, Scripted, create_ledger, ledger};
use outbox_runtime::{Outbox, OutboxHandle, OutboxProfile};
use outbox_tests::{Engine, every_server, mysql, postgres, sqlite};
use sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};

/// Delivers a message while the database answers our last statement of its
/// transaction with the error that `refuse` makes; returns the attempts that the
/// handler was told of in its first three calls.
async fn attempts_when_refused(
    db: &TestDb,
    handler: &Gated,
    n: usize,
    (refuse, relent): (&str, &str),
) -> Vec<u32> {
    let before = handler.seen.count();
    let note = format!("k:{n}");
    // Seen only by the transaction that wrote it.
    let written = format!("EXISTS (SELECT 1 FROM ledger WHERE note = '{note}')");
    db.execute(&refuse.replace("<written>", &written)).await;
    commit(db.connection(), "k", n).await;
    handler.entered(before + 3).await;
    db.execute(relent).await;
    drained(db).await;
    assert!(ledger(db, "gated").await.contains(&note));
    let attempts = handler.attempts.lock().unwrap();
    attempts[before..before + 3].to_vec()
}

async fn start(db: &TestDb) -> (Gated, OutboxHandle) {
    create_ledger(db).await;
    let handler = Gated::new(OnCancel::Ignore);
    handler.open();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(1_000))
        .transactional(handler.clone())
        .start()
        .await
        .unwrap();
    (handler, running)
}

/// The cause of an error.
#[derive(Clone, Copy)]
enum Blame {
    /// A lost race: the next try may win.
    Race,
    /// Unknown: the claim counts as one that died, so the next is charged as it is taken.
    Connection,
    /// The message's.
    Statement,
}
use Blame::{Connection, Race, Statement};

/// Each error in turn, with its cause.
async fn assert_charged(db: &TestDb, errors: &[(&str, Blame)], refuse: &str, relent: &str) {
    let (handler, running) = start(db).await;
    for (n, (code, blame)) in errors.iter().enumerate() {
        let refuse = refuse.replace("<code>", code);
        let attempts = attempts_when_refused(db, &handler, n, (&refuse, relent)).await;
        let expected = match blame {
            Race => [0, 0, 0],
            Connection => [0, 0, 1],
            Statement => [0, 1, 2],
        };
        assert_eq!(attempts, expected, "{code}");
    }
    let booked = ledger(db, "gated").await;
    assert_eq!(booked.len(), errors.len(), "once each: {booked:?}");
    running.stop().await;
}

#[postgres]
async fn postgres_errors_are_charged_only_to_the_message_that_caused_them(db: &TestDb) {
    let errors = [
        ("40001", Race),
        ("40P01", Race),
        ("55P03", Race),
        ("08006", Connection),
        ("53200", Connection),
        ("57014", Connection),
        ("25006", Connection),
        ("23505", Statement),
        ("42P01", Statement),
    ];
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        IF <written> THEN RAISE EXCEPTION 'refused' USING ERRCODE = '<code>'; END IF; \
        RETURN NEW; END $$; \
        CREATE TRIGGER refuse BEFORE UPDATE ON outbox_cursor \
        FOR EACH ROW EXECUTE FUNCTION refuse();";
    let relent = "DROP FUNCTION refuse CASCADE";
    assert_charged(db, &errors, refuse, relent).await;
}

#[mysql]
async fn mysql_errors_are_charged_only_to_the_message_that_caused_them(db: &TestDb) {
    let errors = [
        ("1205", Race),
        ("1213", Race),
        ("1020", Race),
        ("1317", Connection),
        ("1290", Connection),
        ("1062", Statement),
        ("1146", Statement),
    ];
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON outbox_cursor FOR EACH ROW BEGIN \
        IF <written> THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = <code>; END IF; END";
    assert_charged(db, &errors, refuse, "DROP TRIGGER refuse").await;
}

#[sqlite]
async fn a_refused_statement_is_charged_on_sqlite_too(db: &TestDb) {
    let refuse = "CREATE TRIGGER refuse BEFORE UPDATE ON outbox_cursor WHEN <written> \
        BEGIN SELECT RAISE(ABORT, '<code>'); END";
    assert_charged(db, &[("refused", Statement)], refuse, "DROP TRIGGER refuse").await;
}

/// How each engine refuses the commit of a transaction that wrote `k:1` or `k:2` into the ledger,
/// as if it lost a race.
fn refuse_as_a_race(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &[
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF NEW.note IN ('k:1', 'k:2') THEN RAISE EXCEPTION 'refused' USING ERRCODE = '40001'; END IF; \
             RETURN NULL; END $$",
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON ledger \
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()",
        ],
        // Nothing fails at its COMMIT itself: our last statement before it does.
        _ => &[
            "CREATE TRIGGER refuse BEFORE UPDATE ON outbox_cursor FOR EACH ROW BEGIN \
             IF EXISTS (SELECT 1 FROM ledger WHERE note IN ('k:1', 'k:2')) \
             THEN SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END IF; END",
        ],
    }
}

#[every_server]
async fn a_transaction_that_loses_every_race_is_charged_in_the_end(db: &TestDb) {
    create_ledger(db).await;
    for sql in refuse_as_a_race(db.engine()) {
        db.execute(sql).await;
    }
    let handler = Scripted::new(Kind::TransactionalEach, |_, _| Act::Succeed);
    listen();
    let name = format!("logged-races-{:?}", db.engine());
    let sent = Queue::try_of(name.clone(), Partitions::of(1)).unwrap();
    commit_many(db, &sent, "k", 1..4).await;
    let queue = Outbox::builder(db.connect().await)
        .profile(OutboxProfile::low_latency())
        .queue(&name, sent.partitions())
        .retry(soon(2));
    let running = handler.serve(queue).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let consumer = handler.kind().consumer();
    assert_eq!(ledger(db, &consumer).await, ["k:3"]);
    let letters = outbox::DeadLetters::new(db.connection().clone());
    let letters = letters
        .list(&outbox::DeadLetterFilter::new())
        .await
        .unwrap();
    assert_eq!(letters.len(), 2, "{letters:?}");
    for letter in &letters {
        assert_eq!(letter.attempts, 2);
        let reason = &letter.reason;
        assert!(
            reason.starts_with("its transaction could not be committed"),
            "{reason}"
        );
        assert!(
            !reason.contains("did not return"),
            "each attempt is written down: {reason}"
        );
    }
    // The first is in the way of the second; from then on that has its own tries.
    let first = handler.calls_for("k:1");
    let mut second = handler.calls_for("k:2");
    second.retain(|call| first.iter().all(|other| other.at < call.at));
    for calls in [first, second] {
        let charged: Vec<u32> = calls.iter().map(|call| call.attempts).collect();
        assert!(charged.len() > 6, "a race is tried again: {charged:?}");
        assert!(
            charged[..5].iter().all(|attempts| *attempts == 0),
            "{charged:?}"
        );
        assert_eq!(charged.last(), Some(&1), "{charged:?}");
    }
    // Neither for a race that is tried again nor for a batch that is split.
    let warned = lines(&name, "a handler's transaction lost a race");
    assert_eq!(warned.len(), 4, "one for each attempt: {warned:?}");
    assert!(
        warned.iter().all(|line| line.contains("WARN")),
        "{warned:?}"
    );
}

/// Fails once, and keeps the database's only writer busy as it does.
#[derive(Clone)]
struct Hogging {
    db: DatabaseConnection,
    attempts: Arc<Mutex<Vec<u32>>>,
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Hogging {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let first = {
            let mut attempts = self.attempts.lock().unwrap();
            attempts.push(message.attempts());
            attempts.len() == 1
        };
        if !first {
            return HandlerResult::Success;
        }
        self.db.execute_unprepared("BEGIN IMMEDIATE").await.unwrap();
        let db = self.db.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(500)).await;
            db.execute_unprepared("ROLLBACK").await.unwrap();
        });
        HandlerResult::retry("told to fail")
    }
}

#[sqlite]
async fn a_failure_is_written_down_although_sqlite_is_busy(db: &TestDb) {
    let connect = async |connections: u32| {
        let mut options = ConnectOptions::new(db.url());
        options
            .max_connections(connections)
            .sqlx_logging(false)
            .map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::from_millis(5)));
        Database::connect(options).await.unwrap()
    };
    let hogging = Hogging {
        db: connect(1).await,
        attempts: Arc::default(),
    };
    commit(db.connection(), "k", 0).await;
    let running = Outbox::builder(connect(5).await)
        .queue("orders", QUEUE.partitions())
        .retry(soon(9))
        .leased(hogging.clone())
        .start()
        .await
        .unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(*hogging.attempts.lock().unwrap(), [0, 1]);
}

#[every_server]
async fn a_message_that_ends_its_connection_each_time_becomes_the_only_dead_letter(db: &TestDb) {
    create_ledger(db).await;
    commit_many(db, &QUEUE, "k", 0..10).await;
    let handler = Scripted::new(Kind::TransactionalEach, |text, _| {
        if text == "k:4" {
            Act::EndConnection
        } else {
            Act::Succeed
        }
    });
    let queue = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .retry(soon(3));
    let running = handler.serve(queue).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let consumer = handler.kind().consumer();
    let others: Vec<String> = (0..10)
        .filter(|n| *n != 4)
        .map(|n| format!("k:{n}"))
        .collect();
    assert_eq!(ledger(db, &consumer).await, others, "once each");
    let letters = outbox::DeadLetters::new(db.connection().clone());
    let letters = letters
        .list(&outbox::DeadLetterFilter::new())
        .await
        .unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(
        (&*letters[0].payload, letters[0].attempts),
        (&b"k:4"[..], 3)
    );
}
