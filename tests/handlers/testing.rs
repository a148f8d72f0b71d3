//! What `outbox::testing` gives to the tests of others.

use super::*;
use outbox::testing::{self, TestOutbox};
use outbox_tests::every_engine;
use std::time::Duration;

outbox::queue!(Parcels = "parcels", partitions = 4);

#[outbox_event(queue = Parcels, name = "parcel.sent", aliases = ["sent"])]
#[derive(Serialize, Deserialize)]
struct Sent(i64);

/// What comes of it.
#[outbox_event(queue = Parcels, name = "parcel.arrived")]
#[derive(Serialize, Deserialize)]
struct Arrived(i64);

/// Fails twice if the number is odd.
#[outbox_handler(mode = leased, retry(base = "1h", max = "1h", jitter = false))]
async fn carry(sent: Message<Sent>, State(journal): State<Journal>) -> Result<(), String> {
    if sent.event.0 % 2 == 1 && sent.attempts() < 2 {
        return Err("the road is closed".to_owned());
    }
    journal.note(format_args!("carried {}", sent.event.0));
    Ok(())
}

/// The same, with many keys at a time.
#[outbox_handler(mode = leased, consumer = "many", concurrency = 8, retry(base = "1h", max = "1h", jitter = false))]
async fn carry_many(sent: Message<Sent>, State(journal): State<Journal>) -> Result<(), String> {
    if sent.event.0 % 2 == 1 && sent.attempts() < 2 {
        return Err("the road is closed".to_owned());
    }
    journal.note(format_args!("carried {}", sent.event.0));
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "arrivals")]
async fn arrive(sent: Sent, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    if sent.0 < 0 {
        write(tx, "arrivals", sent.0).await?;
        return Err(HandlerError::reject("there is no such parcel"));
    }
    write(tx, "arrivals", sent.0).await?;
    Arrived(sent.0).enqueue(tx, sent.0).await?;
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "arrivals_seen")]
async fn see(arrived: Vec<Arrived>, State(journal): State<Journal>) {
    for arrived in arrived {
        journal.note(format_args!("arrived {}", arrived.0));
    }
}

#[outbox_handler(mode = transactional, consumer = "endless")]
async fn send_on(sent: Sent, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    sent.enqueue(tx, 1).await?;
    Ok(())
}

async fn outbox(
    db: &TestDb,
    handlers: impl IntoIterator<Item = HandlerRegistration>,
    journal: &Journal,
) -> TestOutbox {
    TestOutbox::of(builder(db, handlers, journal)).await
}

async fn send(db: &TestDb, numbers: impl IntoIterator<Item = i64>) {
    let parcels = numbers.into_iter().map(|number| (number, Sent(number)));
    Sent::enqueue_all(db.connection(), parcels).await.unwrap();
}

const HOUR: Duration = Duration::from_secs(3600);

#[every_engine]
async fn a_drain_delivers_what_is_due_and_time_that_passes_makes_retries_due(db: &TestDb) {
    let journal = Journal::default();
    let outbox = outbox(db, outbox::handlers![carry], &journal).await;
    Sent(1).enqueue_to(db.connection(), 0, "a").await.unwrap();
    Sent(2).enqueue_to(db.connection(), 1, "b").await.unwrap();
    let drained = outbox.drain().await;
    assert_eq!(drained.passed, 1);
    assert_eq!(drained.failing.len(), 1);
    assert_eq!(
        drained.failing[0].reason.as_deref(),
        Some("the road is closed")
    );
    assert_eq!(outbox.drain().await.passed, 0);

    outbox.advance(HOUR).await;
    assert_eq!(outbox.drain().await.failing[0].attempts, 2);
    outbox.advance(HOUR - Duration::from_secs(60)).await;
    assert_eq!(outbox.drain().await.passed, 0);
    outbox.advance(Duration::from_secs(60)).await;
    let drained = outbox.drain().await;
    assert_eq!((drained.passed, drained.failing.len()), (1, 0));
    assert_eq!(journal.all(), ["carried 2", "carried 1"]);
    let leases = db.number("SELECT COUNT(*) FROM outbox_cursor WHERE lease_owner IS NOT NULL");
    assert_eq!(leases.await, 0);
}

#[every_engine]
async fn a_drain_leaves_failing_keys_and_comes_back_to_them_with_many_keys_at_a_time(db: &TestDb) {
    let journal = Journal::default();
    let outbox = outbox(db, outbox::handlers![carry_many], &journal).await;
    let parcels = (1..=6).map(|number| (number, Sent(number)));
    for (key, sent) in parcels {
        sent.enqueue_to(db.connection(), 0, key).await.unwrap();
    }
    assert_eq!(outbox.drain().await.failing.len(), 3);
    assert_eq!(journal.all().len(), 3);
    outbox.advance(HOUR).await;
    outbox.drain().await;
    outbox.advance(HOUR).await;
    let drained = outbox.drain().await;
    assert_eq!(drained.failing.len(), 0);
    let mut carried = journal.of("carried ");
    carried.sort_unstable();
    assert_eq!(carried, numbers(1..=6));
}

#[every_engine]
async fn a_drain_also_delivers_what_handlers_enqueue(db: &TestDb) {
    create_ledger(db).await;
    let journal = Journal::default();
    let outbox = outbox(db, outbox::handlers![arrive, see], &journal).await;
    send(db, [7, -1]).await;
    let drained = outbox.drain().await;
    assert_eq!(journal.all(), ["arrived 7"]);
    assert_eq!(ledger(db, "arrivals").await, [7]);
    assert_eq!((drained.dead_letters, drained.failing.len()), (1, 0));
    assert_eq!(
        letters(db, "arrivals", "reason").await,
        ["there is no such parcel"]
    );
    testing::assert_enqueued::<Arrived>(db.connection(), |arrived| arrived.0 == 7).await;
}

#[every_engine]
async fn a_lease_of_a_dead_process_is_over_when_its_time_has_passed(db: &TestDb) {
    let journal = Journal::default();
    let outbox = outbox(db, outbox::handlers![carry], &journal).await;
    send(db, [2]).await;
    db.execute(&format!(
        "UPDATE outbox_cursor SET lease_owner = 'dead', lease_until = {}",
        db.from_now(30_000)
    ))
    .await;
    assert_eq!(outbox.drain().await.passed, 0);
    outbox.advance(Duration::from_secs(31)).await;
    assert_eq!(outbox.drain().await.passed, 1);
}

#[every_engine]
async fn one_handler_is_given_one_event_and_says_what_becomes_of_it(db: &TestDb) {
    create_ledger(db).await;
    let journal = Journal::default();
    let outbox = outbox(db, [], &journal).await;
    assert_eq!(
        outbox.deliver::<carry>(Sent(2)).await,
        HandlerResult::Success
    );
    let retry = HandlerResult::retry("the road is closed");
    assert_eq!(outbox.deliver::<carry>(Sent(1)).await, retry);
    assert_eq!(
        outbox.deliver::<see>(Arrived(3)).await,
        HandlerResult::Success
    );
    assert_eq!(journal.all(), ["carried 2", "arrived 3"]);

    assert_eq!(
        outbox.deliver::<arrive>(Sent(4)).await,
        HandlerResult::Success
    );
    let reject = HandlerResult::reject("there is no such parcel");
    assert_eq!(outbox.deliver::<arrive>(Sent(-4)).await, reject);
    assert_eq!(ledger(db, "arrivals").await, [4]);
    assert_eq!(outbox.drain().await.passed, 0);
}

#[every_engine]
async fn what_a_transaction_enqueued_is_seen_through_it_and_gone_with_it(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    Sent(5).enqueue(&tx, 5).await.unwrap();
    testing::assert_enqueued::<Sent>(&tx, |sent| sent.0 == 5).await;
    testing::assert_not_enqueued::<Sent>(&tx, |sent| sent.0 == 6).await;
    testing::assert_not_enqueued::<Arrived>(&tx, |_| true).await;
    tx.rollback().await.unwrap();
    assert!(testing::enqueued::<Sent>(db.connection()).await.is_empty());
}

#[tokio::test]
#[should_panic(expected = "no `parcel.sent` as wanted was enqueued; there are 1\n  8")]
async fn a_failing_assertion_shows_what_there_is() {
    let db = testing::database().await;
    Sent(8).enqueue(&db, 8).await.unwrap();
    testing::assert_enqueued::<Sent>(&db, |sent| sent.0 == 9).await;
}

#[tokio::test]
#[should_panic(expected = "handles `parcel.sent`, not `parcel.arrived`")]
async fn a_handler_is_not_given_an_event_of_another_type() {
    let db = testing::database().await;
    let builder = Outbox::builder(db).without_discovery();
    let outbox = TestOutbox::of(builder).await;
    outbox.deliver::<carry>(Arrived(1)).await;
}

#[tokio::test]
#[should_panic(expected = "which was not given")]
async fn what_start_would_refuse_is_refused() {
    let db = testing::database().await;
    let builder = Outbox::builder(db).without_discovery();
    TestOutbox::of(builder.handler::<carry>()).await;
}

#[tokio::test]
#[should_panic(expected = "1000 times in a row")]
async fn handlers_that_never_come_to_an_end_are_found() {
    let db = testing::database().await;
    let builder = Outbox::builder(db.clone()).without_discovery();
    let outbox = TestOutbox::of(builder.handler::<send_on>()).await;
    Sent(1).enqueue(&db, 1).await.unwrap();
    outbox.drain().await;
}

/// A handler that reads `REQUEUED_FROM` can be tested, although no producer may send this header.
#[test]
fn a_message_made_by_hand_has_also_the_headers_that_only_the_outbox_sets() {
    let headers = Headers::from_iter([(outbox::REQUEUED_FROM, "7"), ("tenant", "acme")]);
    let message = testing::message_with(Sent(1), 1, headers.clone());
    assert_eq!(message.headers(), &headers);
    assert!(testing::message(Sent(1), 1).headers().is_empty());
}
