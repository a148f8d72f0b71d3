//! Every state, and every way out of it.

use super::*;
use outbox::{DeadLetterScope, DeadLetterStatus, LettersChanged};
use outbox_tests::every_engine;
use std::time::SystemTime;

/// One letter in each state: pending, claimed, claim expired, resolved, discarded. Also returns the
/// claim.
async fn one_of_each(db: &TestDb) -> ([DeadLetterId; 5], DeadLetterClaim) {
    let mut made = Vec::new();
    for status in ["pending", "pending", "pending", "resolved", "discarded"] {
        made.push(
            bury(
                db,
                &LetterRow {
                    status,
                    ..LetterRow::default()
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

pub(super) fn counts(done: LettersChanged) -> (u64, u64) {
    (done.changed, done.unchanged)
}

#[every_engine]
async fn replay_claims_only_letters_without_a_claim(db: &TestDb) {
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
async fn discard_settles_only_letters_without_a_claim(db: &TestDb) {
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
async fn resolve_settles_only_letters_of_ones_own_claim(db: &TestDb) {
    let (made, claim) = one_of_each(db).await;
    let other = DeadLetterClaim::from("somebody else".to_owned());
    assert_eq!(
        counts(letters(db).resolve(&other, made).await.unwrap()),
        (0, 5)
    );
    // An expired claim stays valid until another operator claims the letter.
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
async fn rejecting_a_claimed_letter_makes_it_pending_and_adds_an_attempt_and_a_reason(db: &TestDb) {
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
    let id = bury(db, &LetterRow::default()).await;
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
    bury_many(db, &LetterRow::default(), 2_500).await;
    let paid = bury(
        db,
        &LetterRow {
            event_type: "paid",
            ..LetterRow::default()
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
async fn a_claim_for_ever_is_a_long_claim(db: &TestDb) {
    let id = bury(db, &LetterRow::default()).await;
    let claimed = letters(db).replay(id, Duration::MAX).await.unwrap();
    assert!(claimed.letters[0].deadline.expect("a deadline") > SystemTime::now() + HOUR * 1_000);
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
            &LetterRow {
                status,
                failed_ago,
                ..LetterRow::default()
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
        &LetterRow {
            status: "resolved",
            failed_ago: old,
            ..LetterRow::default()
        },
        2_300,
    )
    .await;
    assert_eq!(letters(db).cleanup(HOUR).await.unwrap(), 2_300);
}

// SQLite has one writer: no other operator can be in the middle of a claim.
