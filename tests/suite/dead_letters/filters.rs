//! Every filter finds what it says and nothing else.

use super::*;
use outbox::DeadLetterStatus;
use outbox_tests::every_engine;
use std::time::SystemTime;

async fn found(db: &TestDb, filter: DeadLetterFilter) -> Vec<DeadLetterId> {
    let listed = letters(db).list(&filter).await.unwrap();
    assert_eq!(
        letters(db).count(&filter).await.unwrap(),
        listed.len() as u64,
        "{filter:?}"
    );
    ids(&listed)
}

#[every_engine]
async fn each_filter_finds_its_letters(db: &TestDb) {
    let plain = LetterRow::default;
    let mut made = Vec::new();
    for given in [
        plain(),
        LetterRow {
            queue: "payments",
            ..plain()
        },
        LetterRow {
            consumer: "ledger",
            ..plain()
        },
        LetterRow {
            event_type: "order.paid",
            ..plain()
        },
        LetterRow {
            key: "other",
            ..plain()
        },
        LetterRow {
            status: "discarded",
            ..plain()
        },
        LetterRow {
            failed_ago: HOUR,
            ..plain()
        },
        LetterRow {
            reason: r"100% Warehouse_ \ 'quoted' é ",
            ..plain()
        },
    ] {
        made.push(bury(db, &given).await);
    }
    let only = |n: usize| vec![made[n]];
    let but = |n: usize| {
        let mut rest = made.clone();
        rest.remove(n);
        rest
    };
    assert_eq!(found(db, all()).await, made);
    for (filter, expected) in [
        (all().queue("payments"), only(1)),
        (all().queue("orders"), but(1)),
        (all().queue("Orders"), vec![]),
        (all().consumer("ledger"), only(2)),
        (all().consumer("default"), but(2)),
        (all().event_type("order.paid"), only(3)),
        (all().event_type("step"), but(3)),
        (all().key("other"), only(4)),
        (all().key("k"), but(4)),
        (all().key("K"), vec![]),
        (all().status(DeadLetterStatus::Discarded), only(5)),
        (all().status(DeadLetterStatus::Pending), but(5)),
        (all().status(DeadLetterStatus::Resolved), vec![]),
        (all().reason_contains("warehouse"), but(7)),
        (all().reason_contains("Warehouse"), only(7)),
        (all().reason_contains("%"), only(7)),
        (all().reason_contains("e_ "), only(7)),
        (all().reason_contains(r"\ 'quoted' é"), only(7)),
        (all().reason_contains("é "), only(7)),
        (all().reason_contains("a\0b"), vec![]),
        (all().reason_contains(""), made.clone()),
        (all().queue("orders").consumer("ledger").key("k"), only(2)),
        (all().queue("payments").consumer("ledger"), vec![]),
    ] {
        assert_eq!(found(db, filter.clone()).await, expected, "{filter:?}");
    }
    // From a time on, and before a time.
    let old = get(db, made[6]).await.failed_at;
    let tick = Duration::from_micros(1);
    assert_eq!(found(db, all().failed_after(old)).await, made);
    assert_eq!(found(db, all().failed_after(old + tick)).await, but(6));
    assert_eq!(found(db, all().failed_before(old)).await, []);
    assert_eq!(found(db, all().failed_before(old + tick)).await, only(6));
    let between = all().failed_after(old).failed_before(old + HOUR / 2);
    assert_eq!(found(db, between).await, only(6));
    assert_eq!(
        found(db, all().failed_before(SystemTime::UNIX_EPOCH)).await,
        []
    );
    // A page.
    let page = all().after(made[1]).limit(3);
    assert_eq!(ids(&letters(db).list(&page).await.unwrap()), made[2..5]);
    assert_eq!(letters(db).count(&page).await.unwrap(), 8, "all pages");
}

#[every_engine]
async fn a_letter_has_everything_and_shows_no_secret(db: &TestDb) {
    let given = LetterRow {
        key: "s3cret-key",
        payload: "s3cret-payload".into(),
        ..LetterRow::default()
    };
    let id = bury(db, &given).await;
    db.execute(r#"UPDATE outbox_dead_letter SET headers = '{"trace":"s3cret-header"}'"#)
        .await;
    let letter = get(db, id).await;
    assert_eq!(
        (&*letter.queue, letter.partition, &*letter.consumer),
        ("orders", 1, "default")
    );
    assert_eq!(
        (letter.sequence, letter.message_id.get(), letter.attempts),
        (7, 70, 3)
    );
    assert_eq!(
        (&*letter.event_type, &*letter.key),
        ("step", &b"s3cret-key"[..])
    );
    assert_eq!(letter.payload, b"s3cret-payload");
    assert_eq!(letter.headers.get("trace"), Some("s3cret-header"));
    assert_eq!(letter.reason, "the warehouse is closed");
    assert_eq!(letter.status, DeadLetterStatus::Pending);
    assert_eq!(
        (letter.deadline, letter.completed_at, letter.requeued_as),
        (None, None, None)
    );
    let age = SystemTime::now()
        .duration_since(letter.failed_at)
        .unwrap_or_default();
    assert!(
        age < HOUR && letter.enqueued_at <= letter.failed_at,
        "{age:?}"
    );
    let filter = all().key("s3cret-key");
    for shown in [
        format!("{letter:?}"),
        format!("{letter:#?}"),
        format!("{filter:?}"),
    ] {
        assert!(
            !shown.contains("s3cret") && !shown.contains("115, 51"),
            "{shown}"
        );
    }
    assert!(
        letters(db)
            .get((id.get() + 1).into())
            .await
            .unwrap()
            .is_none()
    );
}
