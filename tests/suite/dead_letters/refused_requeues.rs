//! A requeue that is refused or fails changes nothing.

use super::requeue::{Picky, pending, start};
use super::*;
use outbox::{DeadLetterStatus, RequeueRefusal};
use outbox_tests::every_engine;

#[every_engine]
async fn a_requeue_that_fails_leaves_letter_and_queue_as_they_were(db: &TestDb) {
    start(db, &Picky::default(), &Picky::default())
        .await
        .stop()
        .await;
    bury_many(
        db,
        &LetterRow {
            consumer: "fine",
            ..LetterRow::default()
        },
        3,
    )
    .await;
    // The last thing that is written for a letter but one.
    db.execute("ALTER TABLE outbox_incoming RENAME TO gone")
        .await;
    letters(db)
        .requeue(all())
        .await
        .expect_err("a table is missing");
    db.execute("ALTER TABLE gone RENAME TO outbox_incoming")
        .await;
    assert_eq!(
        (
            pending(db).await,
            db.number("SELECT COUNT(*) FROM outbox_body").await
        ),
        (3, 0)
    );
    assert_eq!(letters(db).requeue(all()).await.unwrap().requeued.len(), 3);
}

#[every_engine]
async fn a_letter_whose_consumer_is_gone_is_refused_and_stays(db: &TestDb) {
    let running = start(db, &Picky::default(), &Picky::default()).await;
    let (gone, fine) = (
        bury(
            db,
            &LetterRow {
                consumer: "picky",
                ..LetterRow::default()
            },
        )
        .await,
        bury(
            db,
            &LetterRow {
                consumer: "fine",
                ..LetterRow::default()
            },
        )
        .await,
    );
    running
        .outbox()
        .remove_consumer("orders", "picky")
        .await
        .unwrap();
    let report = letters(db).requeue(all()).await.unwrap();
    assert_eq!((report.requeued.len(), report.unchanged), (1, 0));
    assert_eq!(report.requeued[0].letter, fine);
    assert_eq!(report.refused[0].letter, gone);
    assert!(
        matches!(&report.refused[0].refusal, RequeueRefusal::NoConsumer { consumer, .. } if consumer == "picky")
    );
    assert!(
        report.refused[0]
            .to_string()
            .contains(&format!("dead letter {gone} "))
    );
    assert_eq!(get(db, gone).await.status, DeadLetterStatus::Pending);
    running.stop().await;
}

#[every_engine]
async fn a_claimed_letter_is_not_requeued(db: &TestDb) {
    start(db, &Picky::default(), &Picky::default())
        .await
        .stop()
        .await;
    let given = LetterRow {
        consumer: "fine",
        ..LetterRow::default()
    };
    let (held, over) = (bury(db, &given).await, bury(db, &given).await);
    claim(db, over).await;
    expire(db).await;
    claim(db, held).await;
    let report = letters(db)
        .requeue(vec![held, over, 999_999.into()])
        .await
        .unwrap();
    assert_eq!((report.requeued.len(), report.unchanged), (1, 2));
    assert_eq!(report.requeued[0].letter, over);
    assert_eq!(get(db, held).await.status, DeadLetterStatus::Reprocessing);
}
