//! Through the queue again, to the consumer that failed.

use super::*;
use futures_util::future::join_all;
use outbox::prelude::*;
use outbox::{
    DeadLetterStatus, LeasedMessageHandler, NewMessage, OutboxHandle, Queue, REQUEUED_FROM, enqueue,
};
use outbox_tests::{eventually, every_engine};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const QUEUE: Queue = Queue::of("orders", Partitions::of(4));

/// A message as a handler was given it.
#[derive(Clone, Debug)]
struct Call {
    text: String,
    id: i64,
    partition: u32,
    from: Option<String>,
    attempts: u32,
}

/// Rejects the texts it is told to, unless they were requeued.
#[derive(Clone, Default)]
pub(super) struct Picky {
    rejects: Vec<&'static str>,
    /// Also what was requeued.
    always: bool,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Picky {
    fn texts(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.text).collect()
    }

    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

#[outbox::async_trait]
impl LeasedMessageHandler for Picky {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let from = message.headers().get(REQUEUED_FROM).map(str::to_owned);
        let rejected = self.rejects.contains(&&*text) && (self.always || from.is_none());
        self.calls.lock().unwrap().push(Call {
            text,
            id: message.id().get(),
            partition: message.partition(),
            from,
            attempts: message.attempts(),
        });
        if rejected {
            HandlerResult::reject("not this one")
        } else {
            HandlerResult::Success
        }
    }
}

/// Runs a consumer `picky` and a consumer `fine`.
pub(super) async fn start(db: &TestDb, picky: &Picky, fine: &Picky) -> OutboxHandle {
    Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .consumer("picky")
        .leased(picky.clone())
        .queue("orders", QUEUE.partitions())
        .consumer("fine")
        .leased(fine.clone())
        .start()
        .await
        .unwrap()
}

async fn commit(db: &TestDb, text: &str) -> i64 {
    // Not the partition of its key: a requeued message must go where it was.
    let partition = (QUEUE.partition_of_key(b"k") + 1) % 4;
    let options = EnqueueOptions::new().header("trace", format!("of {text}"));
    let message = NewMessage::new("step", "k", text)
        .to_partition(partition)
        .with(options);
    enqueue(db.connection(), &QUEUE, message)
        .await
        .unwrap()
        .get()
}

async fn buried(db: &TestDb, count: u64) {
    eventually(&format!("{count} dead letters"), async || {
        letters(db).count(&all()).await.unwrap() == count
    })
    .await;
}

pub(super) async fn pending(db: &TestDb) -> i64 {
    db.number("SELECT COUNT(*) FROM outbox_dead_letter WHERE status = 'pending'")
        .await
}

#[every_engine]
async fn a_requeued_letter_reaches_only_its_consumer_in_the_order_of_its_key(db: &TestDb) {
    let picky = Picky {
        rejects: vec!["1", "3"],
        ..Picky::default()
    };
    let fine = Picky::default();
    let running = start(db, &picky, &fine).await;
    let mut sent = Vec::new();
    for text in ["0", "1", "2", "3", "4"] {
        sent.push(commit(db, text).await);
    }
    buried(db, 2).await;
    eventually("both consumers", async || {
        picky.texts().len() == 5 && fine.texts().len() == 5
    })
    .await;
    // One message is sent before the requeue and one after it: the requeued one comes between the
    // two.
    running.outbox().pause("orders").await.unwrap();
    commit(db, "before").await;
    let dead = running.outbox().dead_letters();
    let report = dead
        .requeue(all().queue("orders").consumer("picky"))
        .await
        .unwrap();
    assert_eq!(
        (
            report.requeued.len(),
            report.refused.len(),
            report.unchanged
        ),
        (2, 0, 0)
    );
    commit(db, "after").await;
    running.outbox().resume("orders").await.unwrap();
    let order = ["0", "1", "2", "3", "4", "before", "1", "3", "after"];
    eventually("the requeued ones", async || picky.texts().len() >= 9).await;
    assert_eq!(picky.texts(), order);
    eventually("the other consumer", async || fine.texts().len() >= 7).await;
    assert_eq!(fine.texts(), ["0", "1", "2", "3", "4", "before", "after"]);
    // References both ways, and everything else as it was.
    for (requeued, (n, text)) in report.requeued.iter().zip([(1, "1"), (3, "3")]) {
        let letter = get(db, requeued.letter).await;
        assert_eq!(
            (letter.status, letter.message_id.get()),
            (DeadLetterStatus::Resolved, sent[n])
        );
        assert_eq!(letter.requeued_as, Some(requeued.message));
        assert!(letter.completed_at.is_some());
        assert_ne!(requeued.message.get(), sent[n]);
        let calls = picky.calls();
        let again = calls.iter().rfind(|call| call.text == text).expect("again");
        assert_eq!((again.id, again.attempts), (requeued.message.get(), 0));
        assert_eq!(again.from.as_deref(), Some(&*sent[n].to_string()));
        assert_eq!(again.partition, calls[0].partition);
    }
    let twice = dead
        .requeue(report.requeued.iter().map(|r| r.letter).collect::<Vec<_>>())
        .await
        .unwrap();
    assert_eq!((twice.requeued.len(), twice.unchanged), (0, 2));
    running.stop().await;
}

#[every_engine]
async fn a_requeued_message_keeps_its_headers(db: &TestDb) {
    let running = start(
        db,
        &Picky {
            rejects: vec!["1"],
            ..Picky::default()
        },
        &Picky::default(),
    )
    .await;
    commit(db, "1").await;
    buried(db, 1).await;
    let letter = letters(db).list(&all()).await.unwrap().remove(0);
    running.outbox().pause("orders").await.unwrap();
    let report = letters(db).requeue(&letter).await.unwrap();
    let id = report.requeued[0].message;
    let headers = db
        .texts(&format!("SELECT headers FROM outbox_body WHERE id = {id}"))
        .await;
    let expected = format!(
        r#"{{"outbox-requeued-from":"{}","outbox-unique-id":"{}","trace":"of 1"}}"#,
        letter.message_id, letter.unique_id
    );
    assert_eq!(headers, [expected]);
    assert_eq!(
        db.texts(&format!("SELECT target FROM outbox_body WHERE id = {id}"))
            .await,
        ["picky"]
    );
    running.stop().await;
}

#[every_engine]
async fn a_letter_with_reserved_headers_is_requeued_with_them(db: &TestDb) {
    start(db, &Picky::default(), &Picky::default())
        .await
        .stop()
        .await;
    bury(
        db,
        &LetterRow {
            consumer: "fine",
            ..LetterRow::default()
        },
    )
    .await;
    // A program of an earlier release sent it.
    db.execute(
        r#"UPDATE outbox_dead_letter SET headers = '{"content-type":"text/plain","version":"2"}'"#,
    )
    .await;
    let letter = letters(db).list(&all()).await.unwrap().remove(0);
    let report = letters(db).requeue(&letter).await.unwrap();
    assert_eq!((report.requeued.len(), report.refused.len()), (1, 0));
    let expected = format!(
        r#"{{"content-type":"text/plain","outbox-requeued-from":"{}","outbox-unique-id":"{}","version":"2"}}"#,
        letter.message_id, letter.unique_id
    );
    assert_eq!(
        db.texts("SELECT headers FROM outbox_body").await,
        [expected]
    );
}

#[every_engine]
async fn a_requeued_letter_that_fails_again_is_not_requeued_twice(db: &TestDb) {
    let picky = Picky {
        rejects: vec!["1", "2", "3"],
        always: true,
        ..Picky::default()
    };
    let running = start(db, &picky, &Picky::default()).await;
    for text in ["1", "2", "3"] {
        commit(db, text).await;
    }
    buried(db, 3).await;
    // Slowly, so that the first is a dead letter again before the last is sent.
    let slow = letters(db).requeue_rate(3);
    let report = slow
        .requeue(all().status(DeadLetterStatus::Pending))
        .await
        .unwrap();
    assert_eq!(report.requeued.len(), 3);
    buried(db, 6).await;
    let old = letters(db).list(&all()).await.unwrap();
    for (letter, requeued) in old[3..].iter().zip(&report.requeued) {
        assert_eq!(
            letter.message_id, requeued.message,
            "the letter of the new message"
        );
        assert_eq!(letter.status, DeadLetterStatus::Pending);
    }
    running.stop().await;
}

#[every_engine]
async fn requeuing_keeps_to_its_rate(db: &TestDb) {
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
        40,
    )
    .await;
    let began = Instant::now();
    let report = letters(db).requeue_rate(40).requeue(all()).await.unwrap();
    assert_eq!(report.requeued.len(), 40);
    // The first part goes at once.
    assert!(
        began.elapsed() > Duration::from_millis(700),
        "{:?}",
        began.elapsed()
    );
}

#[every_engine]
async fn operators_that_requeue_at_once_send_each_letter_once(db: &TestDb) {
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
        400,
    )
    .await;
    let operators = join_all((0..4).map(|_| db.connect())).await;
    let sent = join_all(
        operators
            .into_iter()
            .map(|db| async move { DeadLetters::new(db).requeue(all()).await.unwrap().requeued }),
    )
    .await
    .concat();
    let rest = letters(db).requeue(all()).await.unwrap().requeued;
    let letters: BTreeSet<_> = sent.iter().chain(&rest).map(|sent| sent.letter).collect();
    assert_eq!((letters.len(), sent.len() + rest.len()), (400, 400));
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_body").await, 400);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_incoming").await, 400);
}
