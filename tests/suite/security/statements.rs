//! No SQL is made of what users say: their texts are values, never text of a statement.

use super::*;
use outbox::{
    DeadLetterClaim, DeadLetterFilter, DeadLetterScope, EnqueueOptions, NewMessage, Outbox, Queue,
    enqueue, enqueue_batch,
};
use outbox_tests::{TestDb, eventually, every_engine};
use std::sync::{Arc, Mutex};

/// In everything that users may say at will.
const HOSTILE: &str = "zq7'); DROP TABLE outbox_body; -- \" ` \\";
/// A name may have no such characters; it is a text of a user's all the same.
const NAME: &str = "zq7-name";

/// Every statement's text that goes through a connection.
fn overhear(db: &mut sea_orm::DatabaseConnection) -> Arc<Mutex<Vec<String>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = heard.clone();
    db.set_metric_callback(move |info| {
        hearing.lock().unwrap().push(info.statement.sql.clone());
    });
    heard
}

#[every_engine]
async fn no_statement_has_a_text_of_a_user_in_it(db: &TestDb) {
    let mut conn = db.connect().await;
    let heard = overhear(&mut conn);
    let queue = Queue::of(NAME, ONE);
    let reason = HOSTILE.to_owned();
    let running = Outbox::builder(conn.clone())
        .queue(NAME, ONE)
        .consumer(NAME)
        .event_types(["fail", "reject", "fine", NAME])
        .retry(TWICE)
        .leased(Obedient { reason })
        .start()
        .await
        .unwrap();
    let message = |event_type: &'static str| {
        let options = EnqueueOptions::new().header(HOSTILE, HOSTILE);
        NewMessage::new(event_type, HOSTILE, HOSTILE).with(options)
    };
    for event_type in ["fail", "reject", NAME] {
        enqueue(&conn, &queue, message(event_type)).await.unwrap();
    }
    enqueue_batch(&conn, &queue, ["fail", "reject", NAME].map(message))
        .await
        .unwrap();
    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new()
        .queue(NAME)
        .consumer(NAME)
        .key(HOSTILE)
        .reason_contains(HOSTILE);
    eventually("the dead letters", async || {
        letters.count(&all).await.unwrap() == 4
    })
    .await;
    running.stats().await.unwrap();

    let found = letters.list(&all).await.unwrap();
    assert!(
        found
            .iter()
            .all(|letter| letter.payload == HOSTILE.as_bytes())
    );
    assert!(
        found
            .iter()
            .all(|letter| letter.headers.get(HOSTILE) == Some(HOSTILE))
    );
    assert!(found.iter().all(|letter| letter.reason == HOSTILE));
    let none = DeadLetterFilter::new()
        .queue(HOSTILE)
        .consumer(HOSTILE)
        .event_type(HOSTILE);
    assert_eq!(letters.count(&none).await.unwrap(), 0);
    let claimed = letters
        .replay(all.clone().limit(2), TWICE.max)
        .await
        .unwrap();
    let ids = || DeadLetterScope::letters(claimed.letters.iter().map(|letter| letter.id));
    let stranger = DeadLetterClaim::from(HOSTILE.to_owned());
    assert_eq!(letters.resolve(&stranger, ids()).await.unwrap().changed, 0);
    assert_eq!(
        letters
            .reject(&stranger, ids(), HOSTILE)
            .await
            .unwrap()
            .changed,
        0
    );
    letters
        .reject(&claimed.claim, ids(), HOSTILE)
        .await
        .unwrap();
    letters.requeue(all.clone()).await.unwrap();
    letters.discard(all).await.unwrap();

    assert!(!running.outbox().pause(HOSTILE).await.unwrap());
    assert!(running.outbox().pause(NAME).await.unwrap());
    assert!(running.outbox().resume(NAME).await.unwrap());
    assert!(
        !running
            .outbox()
            .remove_consumer(HOSTILE, HOSTILE)
            .await
            .unwrap()
    );
    running.stop().await;

    let heard = heard.lock().unwrap();
    assert!(
        heard.iter().any(|sql| sql.contains("outbox_body")),
        "it hears something"
    );
    for sql in heard.iter() {
        assert!(!sql.contains("zq7"), "{sql}");
    }
}
