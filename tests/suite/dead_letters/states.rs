//! Every state, and every way out of it.

use super::*;
use futures_util::future::join_all;
use outbox::{DeadLetterScope, DeadLetterStatus, LettersChanged};
use outbox_tests::{eventually, every_engine, every_server};
use sea_orm::{ConnectionTrait, TransactionTrait};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// One letter in each state: pending, held, held too long, resolved, discarded;
/// and whose the held ones are.
async fn one_of_each(db: &TestDb) -> ([DeadLetterId; 5], DeadLetterClaim) {
    let mut made = Vec::new();
    for status in ["pending", "pending", "pending", "resolved", "discarded"] {
        made.push(
            bury(
                db,
                &Given {
                    status,
                    ..Given::default()
                },
            )
            .await,
        );
    }
    let claimed = letters(db)
        .replay(vec![made[1], made[2]], HOUR)
        .await
        .unwrap();
    db.execute(&format!(
        "UPDATE outbox_dead_letter SET deadline = {} WHERE id = {}",
        db.from_now(-1),
        made[2]
    ))
    .await;
    (made.try_into().unwrap(), claimed.claim)
}

async fn statuses(db: &TestDb) -> Vec<String> {
    db.texts("SELECT status FROM outbox_dead_letter ORDER BY id")
        .await
}

fn counts(done: LettersChanged) -> (u64, u64) {
    (done.changed, done.unchanged)
}

#[every_engine]
async fn replay_claims_what_nobody_holds(db: &TestDb) {
    let (made, _) = one_of_each(db).await;
    let began = SystemTime::now();
    let claimed = letters(db).replay(made, HOUR).await.unwrap();
    assert_eq!(ids(&claimed.letters), [made[0], made[2]]);
    for letter in &claimed.letters {
        assert_eq!(letter.status, DeadLetterStatus::Reprocessing);
        let deadline = letter.deadline.expect("a deadline");
        assert!(
            deadline >= began + HOUR - Duration::from_secs(5),
            "{deadline:?}"
        );
        assert!(deadline < began + HOUR * 2, "{deadline:?}");
    }
    let expected = [
        "reprocessing",
        "reprocessing",
        "reprocessing",
        "resolved",
        "discarded",
    ];
    assert_eq!(statuses(db).await, expected);
    assert!(
        letters(db)
            .replay(all(), HOUR)
            .await
            .unwrap()
            .letters
            .is_empty()
    );
}

#[every_engine]
async fn discard_gives_up_what_nobody_holds(db: &TestDb) {
    let (made, _) = one_of_each(db).await;
    assert_eq!(counts(letters(db).discard(made).await.unwrap()), (2, 3));
    let expected = [
        "discarded",
        "reprocessing",
        "discarded",
        "resolved",
        "discarded",
    ];
    assert_eq!(statuses(db).await, expected);
    let letter = get(db, made[2]).await;
    assert!(
        letter.completed_at.is_some() && letter.deadline.is_none(),
        "{letter:?}"
    );
}

#[every_engine]
async fn resolve_ends_what_is_ones_own(db: &TestDb) {
    let (made, claim) = one_of_each(db).await;
    let other = DeadLetterClaim::from("somebody else".to_owned());
    assert_eq!(
        counts(letters(db).resolve(&other, made).await.unwrap()),
        (0, 5)
    );
    // Held too long is held as long as nobody else claims it.
    assert_eq!(
        counts(letters(db).resolve(&claim, made).await.unwrap()),
        (2, 3)
    );
    let expected = ["pending", "resolved", "resolved", "resolved", "discarded"];
    assert_eq!(statuses(db).await, expected);
    assert_eq!(
        counts(letters(db).resolve(&claim, made).await.unwrap()),
        (0, 5)
    );
    let letter = get(db, made[1]).await;
    assert!(
        letter.completed_at.is_some() && letter.deadline.is_none(),
        "{letter:?}"
    );
    assert_eq!((letter.attempts, letter.requeued_as), (3, None));
}

#[every_engine]
async fn reject_makes_ones_own_pending_with_an_attempt_and_a_reason_more(db: &TestDb) {
    let (made, claim) = one_of_each(db).await;
    db.execute(&format!(
        "UPDATE outbox_dead_letter SET failed_at = {}",
        db.from_now(-3_600_000)
    ))
    .await;
    let other = DeadLetterClaim::from("somebody else".to_owned());
    assert_eq!(
        counts(letters(db).reject(&other, made, "no").await.unwrap()),
        (0, 5)
    );
    let reason = format!("still\0 closed {}", "é".repeat(3_000));
    assert_eq!(
        counts(letters(db).reject(&claim, made, &reason).await.unwrap()),
        (2, 3)
    );
    let expected = ["pending", "pending", "pending", "resolved", "discarded"];
    assert_eq!(statuses(db).await, expected);
    let (letter, before) = (get(db, made[1]).await, get(db, made[0]).await);
    assert_eq!((letter.attempts, before.attempts), (4, 3));
    assert!(letter.reason.starts_with("still\u{fffd} closed é") && letter.reason.len() <= 2_002);
    assert!(
        letter.failed_at > before.failed_at + HOUR / 2,
        "it failed now"
    );
    assert!(letter.deadline.is_none() && letter.completed_at.is_none());
    // And the claim is over.
    assert_eq!(
        counts(letters(db).resolve(&claim, made).await.unwrap()),
        (0, 5)
    );
}

#[every_engine]
async fn attempts_of_a_letter_do_not_overflow(db: &TestDb) {
    let id = bury(db, &Given::default()).await;
    db.execute("UPDATE outbox_dead_letter SET attempts = 2147483647")
        .await;
    let claim = claim(db, id).await;
    assert_eq!(
        counts(letters(db).reject(&claim, id, "again").await.unwrap()),
        (1, 0)
    );
    assert_eq!(get(db, id).await.attempts, 2_147_483_647);
}

#[every_engine]
async fn a_filter_reaches_all_its_letters_however_many(db: &TestDb) {
    bury_many(db, &Given::default(), 2_500).await;
    let paid = bury(
        db,
        &Given {
            event_type: "paid",
            ..Given::default()
        },
    )
    .await;
    let steps = || all().event_type("step");
    assert_eq!(
        counts(letters(db).discard(steps().limit(1_200)).await.unwrap()),
        (1_200, 0)
    );
    // Those that are discarded do not hide the others.
    let claimed = letters(db)
        .replay(steps().limit(1_250), HOUR)
        .await
        .unwrap();
    assert_eq!(claimed.letters.len(), 1_250);
    assert_eq!(counts(letters(db).discard(steps()).await.unwrap()), (50, 0));
    assert_eq!(
        counts(letters(db).resolve(&claimed.claim, all()).await.unwrap()),
        (1_250, 0)
    );
    assert_eq!(get(db, paid).await.status, DeadLetterStatus::Pending);
    assert_eq!(
        letters(db)
            .count(&all().status(DeadLetterStatus::Discarded))
            .await
            .unwrap(),
        1_250
    );
    let every = db.column("SELECT id FROM outbox_dead_letter").await;
    let scope = DeadLetterScope::letters(every.iter().chain(&every).map(|id| (*id).into()));
    assert_eq!(
        counts(letters(db).discard(scope).await.unwrap()),
        (1, 2_500),
        "each counts once"
    );
}

#[every_engine]
async fn an_expired_claim_is_claimable_again_and_then_not_the_first_ones(db: &TestDb) {
    let id = bury(db, &Given::default()).await;
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
async fn a_claim_for_ever_is_a_long_claim(db: &TestDb) {
    let id = bury(db, &Given::default()).await;
    let claimed = letters(db).replay(id, Duration::MAX).await.unwrap();
    assert!(claimed.letters[0].deadline.expect("a deadline") > SystemTime::now() + HOUR * 1_000);
}

#[every_engine]
async fn operators_at_once_never_get_the_same_letter(db: &TestDb) {
    bury_many(db, &Given::default(), 300).await;
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
    // What was locked when an operator stopped is nobody's, not lost.
    let left = letters(db)
        .replay(all().limit(300), HOUR)
        .await
        .unwrap()
        .letters
        .len();
    assert_eq!(claimed.len() + left, 300);
}

#[every_engine]
async fn what_was_claimed_meanwhile_is_not_discarded(db: &TestDb) {
    bury_many(db, &Given::default(), 400).await;
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

#[every_engine]
async fn cleanup_deletes_only_what_was_settled_long_ago(db: &TestDb) {
    let mut kept = Vec::new();
    let old = Duration::from_secs(7_200);
    for (status, failed_ago, keep) in [
        ("pending", old, true),
        ("reprocessing", old, true),
        ("resolved", old, false),
        ("discarded", old, false),
        ("resolved", HOUR / 2, true),
        ("discarded", HOUR / 2, true),
    ] {
        let id = bury(
            db,
            &Given {
                status,
                failed_ago,
                ..Given::default()
            },
        )
        .await;
        if status == "reprocessing" {
            db.execute(&format!(
                "UPDATE outbox_dead_letter SET completed_at = NULL WHERE id = {id}"
            ))
            .await;
        }
        if keep {
            kept.push(id);
        }
    }
    assert_eq!(letters(db).cleanup(HOUR).await.unwrap(), 2);
    assert_eq!(ids(&letters(db).list(&all()).await.unwrap()), kept);
    assert_eq!(letters(db).cleanup(Duration::MAX).await.unwrap(), 0);
    assert_eq!(letters(db).cleanup(Duration::ZERO).await.unwrap(), 2);
    // More than one part.
    db.execute("DELETE FROM outbox_dead_letter").await;
    bury_many(
        db,
        &Given {
            status: "resolved",
            failed_ago: old,
            ..Given::default()
        },
        2_300,
    )
    .await;
    assert_eq!(letters(db).cleanup(HOUR).await.unwrap(), 2_300);
}

// There is one writer on SQLite: nobody can be in the middle of a claim.
#[every_server]
async fn replay_does_not_wait_for_what_others_are_claiming(db: &TestDb) {
    let (first, second) = (
        bury(db, &Given::default()).await,
        bury(db, &Given::default()).await,
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
