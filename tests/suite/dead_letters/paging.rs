//! However many there are.

use super::*;
use outbox::DeadLetterStatus;
use outbox_tests::every_engine;
use std::time::Instant;

const PAGE: usize = 500;

/// Every page of a filter: the ids, and how long each took.
async fn pages(db: &TestDb, filter: &DeadLetterFilter) -> (Vec<i64>, Vec<Duration>) {
    let letters = letters(db);
    let (mut seen, mut times) = (Vec::new(), Vec::new());
    let mut page = filter.clone().limit(u32::try_from(PAGE).unwrap());
    loop {
        let began = Instant::now();
        let found = letters.list(&page).await.unwrap();
        times.push(began.elapsed());
        assert!(found.len() <= PAGE);
        seen.extend(found.iter().map(|letter| letter.id.get()));
        match found.last() {
            Some(last) if found.len() == PAGE => page = page.after(last.id),
            _ => return (seen, times),
        }
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

#[every_engine]
async fn a_hundred_thousand_letters_come_in_pages_and_the_last_is_not_slower(db: &TestDb) {
    bury_many(db, &LetterRow::default(), 100_000).await;
    let there = db
        .column("SELECT id FROM outbox_dead_letter ORDER BY id")
        .await;
    assert_eq!(there.len(), 100_000);
    for filter in [
        all(),
        all().status(DeadLetterStatus::Pending).queue("orders"),
    ] {
        let (seen, times) = pages(db, &filter).await;
        assert!(seen == there, "every letter once, in order");
        let (first, last) = (median(&times[..20]), median(&times[times.len() - 21..]));
        let most = first * 8 + Duration::from_millis(20);
        assert!(
            last < most,
            "the first pages take {first:?}, the last {last:?}"
        );
    }
    assert_eq!(
        letters(db).list(&all()).await.unwrap().len(),
        100,
        "unless told otherwise"
    );
}
