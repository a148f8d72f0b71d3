//! Which handlers run, and what `start()` says of those that cannot.

use super::*;
use outbox::StartError;
use outbox_tests::every_engine;
use std::time::Duration;

outbox::queue!(News = "news", partitions = 2);

#[outbox_event(queue = News, name = "printed")]
#[derive(Serialize, Deserialize)]
struct Printed;

/// No handler takes it.
#[outbox_event(queue = News, name = "shredded")]
#[derive(Serialize, Deserialize)]
struct Shredded;

/// A state that a test may forget.
#[derive(Clone)]
struct Postage;

#[outbox_handler(mode = leased, consumer = "mail")]
async fn mail(_: Printed, State(journal): State<Journal>, _: State<Postage>) {
    journal.note("mail");
}

#[outbox_handler(mode = transactional, consumer = "archive", handle = Archive)]
async fn archive(_: Vec<Printed>, State(journal): State<Journal>) {
    journal.note("archive");
}

#[outbox_handler(mode = leased, consumer = "kiosk")]
async fn kiosk(_: Printed, State(journal): State<Journal>) {
    journal.note("kiosk");
}

#[outbox_handler(mode = leased, consumer = "late")]
async fn late(_: Printed, State(journal): State<Journal>) {
    journal.note("late");
}

#[outbox_handler(mode = leased, consumer = "collector", from = earliest)]
async fn collector(_: Printed, State(journal): State<Journal>) {
    journal.note("collector");
}

/// The problems, as they are told.
fn problems<T>(started: Result<T, StartError>) -> Vec<String> {
    let error = started.err().expect("it cannot start");
    error.problems().iter().map(ToString::to_string).collect()
}

async fn seen(db: &TestDb, builder: OutboxBuilder, journal: &Journal, count: usize) -> Vec<String> {
    let running = builder.start().await.expect("it starts");
    Printed.enqueue(db.connection(), 1).await.unwrap();
    eventually("all of them", async || journal.all().len() >= count).await;
    running.stop().await;
    let mut notes = journal.all();
    notes.sort();
    notes
}

async fn consumers(db: &TestDb) -> Vec<String> {
    let sql = "SELECT c.name FROM outbox_consumer c JOIN outbox_queue q ON q.id = c.queue_id \
               WHERE q.name = 'news' ORDER BY c.name";
    db.texts(sql).await
}

#[every_engine]
async fn without_discovery_only_what_is_named_runs(db: &TestDb) {
    let journal = Journal::default();
    // Named twice is named once.
    let builder = Outbox::builder(db.connection().clone())
        .without_discovery()
        .handler::<kiosk>()
        .handlers(outbox::handlers![Archive, kiosk])
        .state(journal.clone());
    assert_eq!(seen(db, builder, &journal, 2).await, ["archive", "kiosk"]);
    assert_eq!(consumers(db).await, ["archive", "kiosk"]);
}

#[every_engine]
async fn without_anything_named_nothing_runs(db: &TestDb) {
    let running = Outbox::builder(db.connection().clone())
        .without_discovery()
        .start();
    running.await.expect("it starts").stop().await;
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_queue").await, 0);
}

#[every_engine]
async fn every_handler_of_the_program_is_found(db: &TestDb) {
    let journal = Journal::default();
    let builder = Outbox::builder(db.connection().clone())
        .profile(OutboxProfile::low_latency())
        .state(journal.clone())
        .state(Postage)
        .state(delivery::Warehouse("Bremen"));
    let all = ["archive", "collector", "kiosk", "late", "mail"];
    assert_eq!(seen(db, builder, &journal, 5).await, all);
    let found = outbox::registry().consumers().len();
    let registered = db.number("SELECT COUNT(*) FROM outbox_consumer").await;
    assert_eq!(usize::try_from(registered), Ok(found));
}

#[every_engine]
async fn a_process_may_run_some_of_the_consumers(db: &TestDb) {
    let journal = Journal::default();
    // The state that the others need is not missed here.
    let builder = Outbox::builder(db.connection().clone())
        .consumers(["kiosk", "archive"])
        .state(journal.clone());
    assert_eq!(seen(db, builder, &journal, 2).await, ["archive", "kiosk"]);
    assert_eq!(consumers(db).await, ["archive", "kiosk"]);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_queue").await, 1);
}

#[every_engine]
async fn a_consumer_without_a_handler_is_named_in_the_error(db: &TestDb) {
    let builder = builder(db, outbox::handlers![kiosk, Archive], &Journal::default());
    let problems = problems(builder.consumers(["kiosk", "kisok"]).start().await);
    assert_eq!(
        problems,
        ["no handler has consumer `kisok`; the consumers are `archive`, `kiosk`"]
    );
    assert_eq!(
        consumers(db).await,
        [] as [String; 0],
        "nothing is registered"
    );
}

#[every_engine]
async fn a_missing_state_is_reported_at_the_start(db: &TestDb) {
    let builder = Outbox::builder(db.connection().clone()).without_discovery();
    let builder = builder.handlers(outbox::handlers![mail, kiosk]);
    let problems = problems(builder.start().await);
    assert_eq!(problems.len(), 3, "{problems:?}");
    let place =
        |name: &str, line: u32| format!("`handlers::selection::{name}` ({}:{line})", file!());
    for (name, line, state) in [
        ("kiosk", KIOSK, "handlers::Journal"),
        ("mail", MAIL, "handlers::Journal"),
        ("mail", MAIL, "handlers::selection::Postage"),
    ] {
        let place = place(name, line);
        let told = format!(
            "handler {place} takes a state of type `{state}`, which was not given: call \
             `.state(..)` on the builder"
        );
        assert!(problems.contains(&told), "{told} is not in {problems:#?}");
    }
}

#[every_engine]
async fn registering_needs_no_states(db: &TestDb) {
    outbox::register(db.connection()).await.unwrap();
    assert_eq!(
        consumers(db).await,
        ["archive", "collector", "kiosk", "late", "mail"]
    );
    // The next message is for all of them, though none of them runs yet.
    Printed.enqueue(db.connection(), 1).await.unwrap();
    let journal = Journal::default();
    let running = start(db, outbox::handlers![kiosk, Archive], &journal).await;
    journal.reaches("kiosk", 1).await;
    journal.reaches("archive", 1).await;
    running.stop().await;
}

#[every_engine]
async fn a_consumer_that_joins_late_starts_where_it_says(db: &TestDb) {
    let journal = Journal::default();
    let keeping = |handlers: Vec<HandlerRegistration>| {
        builder(db, handlers, &journal).retention(Duration::from_secs(3600))
    };
    let running = keeping(outbox::handlers![kiosk].into())
        .start()
        .await
        .unwrap();
    for _ in 0..3 {
        Printed.enqueue(db.connection(), 1).await.unwrap();
    }
    journal.reaches("kiosk", 3).await;
    running.stop().await;
    let all = outbox::handlers![kiosk, late, collector];
    let running = keeping(all.into()).start().await.unwrap();
    Printed.enqueue(db.connection(), 1).await.unwrap();
    journal.reaches("kiosk", 4).await;
    journal.reaches("collector", 4).await;
    journal.reaches("late", 1).await;
    running.stop().await;
    assert_eq!(journal.of("late").len(), 1);
}

#[every_engine]
async fn an_event_without_a_handler_is_an_error_only_if_one_is_strict(db: &TestDb) {
    let journal = Journal::default();
    let picked = || builder(db, outbox::handlers![kiosk], &journal);
    picked().start().await.expect("it starts").stop().await;
    let problems = problems(picked().strict().start().await);
    let place = format!("`handlers::selection::Shredded` ({}:{SHREDDED})", file!());
    assert_eq!(
        problems,
        [format!(
            "event `shredded` of queue `news`, {place}, has no handler: every consumer passes \
             over it"
        )]
    );
    // A handler made by hand counts, and queues without any handler do not.
    let by_hand = picked()
        .strict()
        .queue("news", Partitions::of(2))
        .consumer("all");
    by_hand
        .leased(Shred)
        .start()
        .await
        .expect("it starts")
        .stop()
        .await;
    // That this process leaves a consumer to others is no problem.
    let some = builder(db, outbox::handlers![kiosk, Archive], &journal);
    let some = some.strict().consumers(["archive"]).start().await;
    assert_eq!(self::problems(some).len(), 1);
}

#[every_engine]
async fn all_problems_are_reported_at_once(db: &TestDb) {
    let started = Outbox::builder(db.connection().clone())
        .without_discovery()
        .handlers(outbox::handlers![kiosk])
        .strict()
        .consumers(["kiosk", "nobody"])
        .transactions_per_queue(0)
        .start()
        .await;
    assert_eq!(problems(started).len(), 4);
}

#[every_engine]
async fn a_handler_and_a_consumer_made_by_hand_cannot_share_a_name(db: &TestDb) {
    let builder = builder(db, outbox::handlers![kiosk], &Journal::default());
    let builder = builder
        .queue("news", Partitions::of(4))
        .consumer("kiosk")
        .leased(Shred);
    let problems = problems(builder.start().await);
    assert_eq!(problems.len(), 2, "{problems:#?}");
    let told = |part: &str| problems.iter().any(|problem| problem.contains(part));
    assert!(told("two handlers"), "{problems:#?}");
    assert!(
        told("4 by consumer `kiosk` of the builder"),
        "{problems:#?}"
    );
}

struct Shred;

#[outbox::async_trait]
impl outbox::LeasedMessageHandler for Shred {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::Success
    }
}

/// The lines of the attributes above.
const SHREDDED: u32 = 15;
const MAIL: u32 = 23;
const KIOSK: u32 = 33;
