//! What attributes say of attempts, pauses and batches: each handler's own, also
//! where two share a consumer.

use super::*;
use outbox_tests::every_engine;
use std::time::Duration;

outbox::queue!(Jobs = "jobs", partitions = 4);

#[outbox_event(queue = Jobs, name = "a")]
#[derive(Serialize, Deserialize)]
struct A;

#[outbox_event(queue = Jobs, name = "b")]
#[derive(Serialize, Deserialize)]
struct B;

#[outbox_event(queue = Jobs, name = "c")]
#[derive(Serialize, Deserialize)]
struct C;

#[outbox_handler(mode = leased, consumer = "failing", max_attempts = 1)]
async fn once(_: A) -> Result<(), String> {
    Err("a".to_owned())
}

#[outbox_handler(mode = leased, consumer = "failing", max_attempts = 3, retry(base = "1ms", max = "1ms"))]
async fn thrice(_: B) -> Result<(), String> {
    Err("b".to_owned())
}

#[outbox_handler(mode = leased, consumer = "failing", retry(base = "1h", max = "2h", jitter = false))]
async fn hourly(_: C) -> Result<(), String> {
    Err("c".to_owned())
}

#[outbox_handler(mode = transactional, consumer = "tx_failing", max_attempts = 1)]
async fn tx_once(_: A) -> Result<(), String> {
    Err("a".to_owned())
}

#[outbox_handler(mode = transactional, consumer = "tx_failing", max_attempts = 3, retry(base = "1ms", max = "1ms"))]
async fn tx_thrice(_: Vec<B>) -> Result<(), String> {
    Err("b".to_owned())
}

#[outbox_handler(mode = leased, consumer = "sizes", batch = 3)]
async fn small(events: Vec<A>, State(journal): State<Journal>) {
    journal.note(format_args!("small {}", events.len()));
}

#[outbox_handler(mode = leased, consumer = "sizes", batch = 40)]
async fn large(events: Vec<B>, State(journal): State<Journal>) {
    journal.note(format_args!("large {}", events.len()));
}

/// As large as the profile says.
#[outbox_handler(mode = leased, consumer = "sizes")]
async fn usual(events: Vec<C>, State(journal): State<Journal>) {
    journal.note(format_args!("usual {}", events.len()));
}

/// Gives up by itself.
#[outbox_handler(mode = leased, consumer = "timed", timeout = "100ms", max_attempts = 1)]
async fn hanging(_: A, State(journal): State<Journal>, ctx: &Ctx) {
    let short = ctx.remaining() <= Duration::from_millis(100);
    journal.note(format_args!("hanging {short}"));
    std::future::pending::<()>().await;
}

/// The consumer's lease is as long as the handler with the longest needs.
#[outbox_handler(mode = leased, consumer = "timed", lease = "5m", headroom = "1m")]
async fn patient(_: B, State(journal): State<Journal>, ctx: &Ctx) {
    journal.note(format_args!("patient {}", in_minutes(ctx)));
}

#[outbox_handler(mode = leased, consumer = "timed")]
async fn easy(_: C, State(journal): State<Journal>, ctx: &Ctx) {
    journal.note(format_args!("easy {}", in_minutes(ctx)));
}

/// Waits until messages of three keys are here at once.
#[outbox_handler(mode = leased, consumer = "together", concurrency = 3)]
async fn together(_: A, State(journal): State<Journal>) {
    journal.note("together");
    while journal.of("together").len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Rounded up.
fn in_minutes(ctx: &Ctx) -> u64 {
    ctx.remaining().as_secs() / 60 + 1
}

#[every_engine]
async fn each_handler_has_its_timeout_and_all_share_the_longest_lease(db: &TestDb) {
    let journal = Journal::default();
    A.enqueue(db.connection(), "x").await.unwrap();
    B.enqueue(db.connection(), "x").await.unwrap();
    C.enqueue(db.connection(), "x").await.unwrap();
    let running = start(db, outbox::handlers![hanging, patient, easy], &journal).await;
    journal.reaches("easy", 1).await;
    running.stop().await;
    assert_eq!(journal.all(), ["hanging true", "patient 4", "easy 4"]);
    let reasons = letters(db, "timed", "reason").await;
    assert_eq!(reasons.len(), 1);
    assert!(reasons[0].contains("100ms"), "{reasons:?}");
}

#[every_engine]
async fn handlers_of_one_consumer_have_their_own_attempts_and_pauses(db: &TestDb) {
    let handlers = outbox::handlers![once, thrice, hourly, tx_once, tx_thrice];
    for key in ["x", "y"] {
        A.enqueue(db.connection(), key).await.unwrap();
        B.enqueue(db.connection(), key).await.unwrap();
    }
    let running = start(db, handlers, &Journal::default()).await;
    for consumer in ["failing", "tx_failing"] {
        eventually(consumer, async || {
            letters(db, consumer, "reason").await.len() == 4
        })
        .await;
        assert_eq!(
            letters(db, consumer, "event_type").await,
            ["a", "b", "a", "b"]
        );
        assert_eq!(
            letters(db, consumer, "attempts").await,
            ["1", "3", "1", "3"],
            "{consumer}"
        );
    }
    C.enqueue(db.connection(), "x").await.unwrap();
    let due = async |millis| {
        let sql = "SELECT COUNT(*) FROM outbox_attempt WHERE failures = 1 AND not_before >";
        db.number(&format!("{sql} {}", db.from_now(millis))).await
    };
    eventually("a pause", async || due(50 * 60_000).await == 1).await;
    assert_eq!(due(61 * 60_000).await, 0);
    running.stop().await;
}

#[every_engine]
async fn a_handler_may_work_on_several_keys_of_a_partition_at_a_time(db: &TestDb) {
    let journal = Journal::default();
    for key in ["x", "y", "z"] {
        A.enqueue_to(db.connection(), 0, key).await.unwrap();
    }
    let running = start(db, outbox::handlers![together], &journal).await;
    journal.reaches("together", 3).await;
    running.stop().await;
    assert_eq!(journal.all().len(), 3);
}

#[every_engine]
async fn handlers_of_one_consumer_have_batches_of_their_own_size(db: &TestDb) {
    let journal = Journal::default();
    let tx = db.connection().begin().await.unwrap();
    A::enqueue_all(&tx, (0..40).map(|_| ("key", A)))
        .await
        .unwrap();
    B::enqueue_all(&tx, (0..40).map(|_| ("key", B)))
        .await
        .unwrap();
    C::enqueue_all(&tx, (0..40).map(|_| ("key", C)))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let running = start(db, outbox::handlers![small, large, usual], &journal).await;
    let usual = OutboxProfile::low_latency()
        .processor
        .batch_size
        .to_string();
    assert_ne!(usual, "40");
    let total = |prefix| -> i64 {
        let sizes = journal.of(prefix);
        sizes.iter().map(|size| size.parse::<i64>().unwrap()).sum()
    };
    eventually("all", async || total("usual ") == 40).await;
    running.stop().await;
    assert_eq!((total("small "), total("large ")), (40, 40));
    assert_eq!(journal.of("small ").iter().max().unwrap(), "3");
    assert_eq!(journal.of("large ")[0], "40");
    assert_eq!(journal.of("usual ")[0], usual);
}
