//! Dead letters of one event: decoded, repaired.

use super::*;
use outbox::prelude::*;
use outbox::{DeadLetterStatus, RequeueRefusal};
use outbox_tests::{eventually, every_engine};
use std::sync::{Arc, Mutex};

#[outbox_event(queue = "parcels", partitions = 2, name = "parcel.sent", aliases = ["parcel"], max_payload = 100)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ParcelSent {
    parcel: i64,
    street: String,
}

fn given(event_type: &'static str, payload: &str) -> LetterRow {
    LetterRow {
        queue: "parcels",
        event_type,
        payload: payload.to_owned(),
        ..LetterRow::default()
    }
}

const GOOD: &str = r#"{"parcel":7,"street":"Elm"}"#;

#[derive(Clone, Default)]
struct Streets(Arc<Mutex<Vec<(String, String)>>>);

#[outbox::async_trait]
impl outbox::LeasedMessageHandler for Streets {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let payload = String::from_utf8_lossy(message.payload()).into_owned();
        let seen = (message.event_type().to_owned(), payload);
        self.0.lock().unwrap().push(seen);
        HandlerResult::Success
    }
}

#[every_engine]
async fn a_typed_view_decodes_a_letter_or_shows_its_bytes(db: &TestDb) {
    let good = bury(db, &given("parcel.sent", GOOD)).await;
    let old = bury(db, &given("parcel", GOOD)).await;
    let bad = bury(db, &given("parcel.sent", r#"{"parcel":"s3cret"}"#)).await;
    let other = bury(db, &given("parcel.lost", GOOD)).await;
    bury(
        db,
        &LetterRow {
            queue: "orders",
            ..given("parcel.sent", GOOD)
        },
    )
    .await;
    let typed = letters(db).of::<ParcelSent>();
    let listed = typed.list(&all()).await.unwrap();
    assert_eq!(
        listed.iter().map(|l| l.letter.id).collect::<Vec<_>>(),
        [good, old, bad]
    );
    assert_eq!(typed.count(&all()).await.unwrap(), 3);
    let event = listed[1].event.as_ref().expect("an event");
    assert_eq!(
        *event,
        ParcelSent {
            parcel: 7,
            street: "Elm".into()
        }
    );
    let refused = listed[2].event.as_ref().expect_err("no parcel");
    assert_eq!(
        (refused.event, refused.line, refused.column),
        ("parcel.sent", 1, 18)
    );
    assert_eq!(listed[2].letter.payload, br#"{"parcel":"s3cret"}"#);
    let shown = format!("{listed:?} {refused} {refused:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("Elm"),
        "{shown}"
    );
    assert!(typed.get(other).await.unwrap().is_none(), "another event");
    assert!(
        typed
            .get(good)
            .await
            .unwrap()
            .expect("a letter")
            .event
            .is_ok()
    );
    let page = typed.list(&all().after(good).limit(1)).await.unwrap();
    assert_eq!(page[0].letter.id, old);
    assert!(typed.list(&all().queue("orders")).await.unwrap().is_empty());
}

/// Its letter was requeued before, and has the unique id of the first message in a header.
#[every_engine]
async fn a_repaired_event_has_a_unique_id_of_its_own(db: &TestDb) {
    let running = Outbox::builder(db.connection().clone())
        .queue("parcels", Partitions::of(2))
        .leased(Streets::default())
        .start()
        .await
        .unwrap();
    running.stop().await;
    let letter = bury(db, &given("parcel.sent", GOOD)).await;
    db.execute(
        r#"UPDATE outbox_dead_letter SET headers = '{"outbox-unique-id":"3-000000000000000f"}'"#,
    )
    .await;
    let first = get(db, letter).await.unique_id;
    assert_eq!(first.to_string(), "3-000000000000000f");
    let typed = DeadLetters::new(db.connection().clone()).of::<ParcelSent>();
    let report = typed
        .requeue_with(letter, |event| ParcelSent {
            street: "Oak".into(),
            ..event
        })
        .await
        .unwrap();
    assert_eq!(report.requeued.len(), 1);
    let headers = db.texts("SELECT headers FROM outbox_body").await;
    assert!(!headers[0].contains("outbox-unique-id"), "{headers:?}");
}

#[every_engine]
async fn a_repaired_event_is_requeued_and_the_letter_keeps_its_bytes(db: &TestDb) {
    let seen = Streets::default();
    let running = Outbox::builder(db.connection().clone())
        .queue("parcels", Partitions::of(2))
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let old = bury(db, &given("parcel", GOOD)).await;
    let bad = bury(db, &given("parcel.sent", "[]")).await;
    let other = bury(db, &given("parcel.lost", GOOD)).await;
    let typed = running.outbox().dead_letters().of::<ParcelSent>();
    let long = typed
        .requeue_with(old, |event| ParcelSent {
            street: "Elm".repeat(100),
            ..event
        })
        .await
        .unwrap();
    let RequeueRefusal::PayloadTooLarge { limit: 100, .. } = long.refused[0].refusal else {
        panic!("{long:?}");
    };
    let report = typed
        .requeue_with(vec![old, bad, other], |event| ParcelSent {
            street: "Oak".into(),
            ..event
        })
        .await
        .unwrap();
    assert_eq!(
        (
            report.requeued.len(),
            report.refused.len(),
            report.unchanged
        ),
        (1, 1, 1)
    );
    assert_eq!(
        (report.requeued[0].letter, report.refused[0].letter),
        (old, bad)
    );
    let text = report.refused[0].to_string();
    assert!(
        text.contains(&format!("dead letter {bad} ")) && text.contains("is no `"),
        "{text}"
    );
    let repaired = r#"{"parcel":7,"street":"Oak"}"#;
    eventually("the repaired one", async || {
        *seen.0.lock().unwrap() == [("parcel.sent".to_owned(), repaired.to_owned())]
    })
    .await;
    let letter = get(db, old).await;
    assert_eq!(
        (letter.status, &*letter.payload),
        (DeadLetterStatus::Resolved, GOOD.as_bytes())
    );
    assert_eq!(letter.event_type, "parcel");
    assert_eq!(letter.requeued_as, Some(report.requeued[0].message));
    for untouched in [bad, other] {
        assert_eq!(get(db, untouched).await.status, DeadLetterStatus::Pending);
    }
    running.stop().await;
}
