//! Several operators at once: a letter belongs to one claim at a time.

use super::states::counts;
use super::*;
use futures_util::future::join_all;
use outbox::{DeadLetterStatus, LettersChanged};
use outbox_tests::{eventually, every_engine, every_server};
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::collections::BTreeSet;

#[every_engine]
async fn a_letter_whose_claim_expired_belongs_to_the_next_claim(db: &TestDb) {
    let id = bury(db, &LetterRow::default()).await;
    let first = letters(db)
        .replay(id, Duration::from_millis(500))
        .await
        .unwrap();
    assert_eq!(ids(&first.letters), [id]);
    assert!(
        letters(db)
            .replay(id, HOUR)
            .await
            .unwrap()
            .letters
            .is_empty(),
        "it is held"
    );
    let second = tokio::sync::Mutex::new(None);
    eventually("the end of the claim", async || {
        let claimed = letters(db).replay(id, HOUR).await.unwrap();
        let got = !claimed.letters.is_empty();
        *second.lock().await = Some(claimed);
        got
    })
    .await;
    let second = second.into_inner().expect("a claim");
    assert_eq!(
        counts(letters(db).resolve(&first.claim, id).await.unwrap()),
        (0, 1)
    );
    assert_eq!(
        counts(letters(db).reject(&first.claim, id, "late").await.unwrap()),
        (0, 1)
    );
    assert_eq!(
        counts(letters(db).resolve(&second.claim, id).await.unwrap()),
        (1, 0)
    );
}

#[every_engine]
async fn operators_at_once_never_get_the_same_letter(db: &TestDb) {
    bury_many(db, &LetterRow::default(), 300).await;
    // Some of them are claimed and over.
    letters(db).replay(all().limit(100), HOUR).await.unwrap();
    expire(db).await;
    let operators = join_all((0..6).map(|_| db.connect())).await;
    let claimed = join_all(operators.into_iter().map(|db| async move {
        let letters = DeadLetters::new(db);
        let mut mine = Vec::new();
        loop {
            let claimed = letters.replay(all().limit(7), HOUR).await.unwrap();
            if claimed.letters.is_empty() {
                return mine;
            }
            mine.extend(ids(&claimed.letters));
        }
    }))
    .await
    .concat();
    let distinct: BTreeSet<_> = claimed.iter().collect();
    assert_eq!(claimed.len(), distinct.len(), "none twice");
    // A letter that was locked when an operator stopped is free, not lost.
    let left = letters(db)
        .replay(all().limit(300), HOUR)
        .await
        .unwrap()
        .letters
        .len();
    assert_eq!(claimed.len() + left, 300);
}

#[every_engine]
async fn a_letter_that_is_claimed_meanwhile_is_not_discarded(db: &TestDb) {
    bury_many(db, &LetterRow::default(), 400).await;
    let operators = join_all((0..3).map(|_| db.connect())).await;
    let discarding = join_all((0..3).map(|_| db.connect())).await;
    let replays = join_all(operators.into_iter().map(|db| async move {
        let letters = DeadLetters::new(db);
        let (mut mine, mut lost) = (0, 0);
        loop {
            let claimed = letters.replay(all().limit(5), HOUR).await.unwrap();
            if claimed.letters.is_empty() {
                return (mine, lost);
            }
            let done = letters
                .resolve(&claimed.claim, ids(&claimed.letters))
                .await
                .unwrap();
            mine += done.changed;
            lost += done.unchanged;
        }
    }));
    let discards = join_all(discarding.into_iter().map(|db| async move {
        let letters = DeadLetters::new(db);
        let mut mine = 0;
        loop {
            let done = letters.discard(all().limit(5)).await.unwrap();
            mine += done.changed;
            if done == LettersChanged::default() {
                return mine;
            }
        }
    }));
    let (replayed, discarded) = tokio::join!(replays, discards);
    let lost: u64 = replayed.iter().map(|(_, lost)| lost).sum();
    assert_eq!(lost, 0, "a claim holds");
    let changed =
        replayed.iter().map(|(mine, _)| mine).sum::<u64>() + discarded.iter().sum::<u64>();
    let left = letters(db)
        .count(&all().status(DeadLetterStatus::Pending))
        .await
        .unwrap();
    assert_eq!(changed + left, 400, "each once");
}

#[every_server]
async fn replay_does_not_wait_for_letters_that_another_operator_is_claiming(db: &TestDb) {
    let (first, second) = (
        bury(db, &LetterRow::default()).await,
        bury(db, &LetterRow::default()).await,
    );
    let other = db.connect().await;
    let tx = other.begin().await.unwrap();
    let lock = format!("UPDATE outbox_dead_letter SET attempts = 9 WHERE id = {first}");
    tx.execute_unprepared(&lock).await.unwrap();
    let replay = letters(db);
    let claiming = replay.replay(all(), HOUR);
    let claimed = tokio::time::timeout(Duration::from_secs(10), claiming).await;
    assert_eq!(
        ids(&claimed.expect("it does not wait").unwrap().letters),
        [second]
    );
    tx.rollback().await.unwrap();
}
