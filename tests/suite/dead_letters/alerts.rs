//! A hook is told of new dead letters, and old ones are removed.

use super::*;
use outbox::prelude::*;
use outbox::{
    DeadLetterNotice, LeasedMessageHandler, NewMessage, OutboxBuilder, Queue, WorkerTuning, enqueue,
};
use outbox_tests::{eventually, every_engine};
use std::sync::{Arc, Mutex};

const QUEUE: Queue = Queue::of("orders", Partitions::of(1));

/// Rejects what is bad.
#[derive(Clone, Default)]
struct RejectBad(Arc<Mutex<Vec<String>>>);

#[outbox::async_trait]
impl LeasedMessageHandler for RejectBad {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        self.0.lock().unwrap().push(text.clone());
        if text.starts_with("bad") {
            HandlerResult::reject(format!("{text} is bad"))
        } else {
            HandlerResult::Success
        }
    }
}

async fn commit(db: &TestDb, text: &str) -> i64 {
    let message = NewMessage::new("step", "key", text);
    enqueue(db.connection(), &QUEUE, message)
        .await
        .unwrap()
        .get()
}

#[every_engine]
async fn the_hook_is_told_of_each_dead_letter_once_it_is_committed(db: &TestDb) {
    let told: Arc<Mutex<Vec<DeadLetterNotice>>> = Arc::default();
    let (hook, elsewhere) = (told.clone(), db.connect().await);
    let early = Arc::new(Mutex::new(false));
    let seen_early = early.clone();
    let runtime = tokio::runtime::Handle::current();
    let running = Outbox::builder(db.connection().clone())
        .on_dead_letter(move |notice| {
            // Another connection sees it already.
            let letters = DeadLetters::new(elsewhere.clone());
            let found = tokio::task::block_in_place(|| runtime.block_on(letters.get(notice.id)));
            *seen_early.lock().unwrap() |= found.unwrap().is_none();
            hook.lock().unwrap().push(notice.clone());
            std::panic::resume_unwind(Box::new("the hook's own trouble"));
        })
        .queue("orders", QUEUE.partitions())
        .leased(RejectBad::default())
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for text in ["good", "bad1", "good", "bad2", "good"] {
        ids.push(commit(db, text).await);
    }
    eventually("delivery", async || {
        db.number("SELECT MAX(processed_seq) FROM outbox_cursor")
            .await
            == 5
            && told.lock().unwrap().len() == 2
    })
    .await;
    running.stop().await;
    assert!(!*early.lock().unwrap(), "told before the commit");
    let told = told.lock().unwrap().clone();
    let letters = letters(db).list(&all()).await.unwrap();
    for (notice, (letter, n)) in told.iter().zip(letters.iter().zip([1, 3])) {
        assert_eq!((notice.id, notice.message.id().get()), (letter.id, ids[n]));
        assert_eq!(
            (notice.message.queue(), &*notice.consumer),
            ("orders", "default")
        );
        assert_eq!((notice.attempts, &notice.reason), (1, &letter.reason));
        assert_eq!(notice.message.payload(), letter.payload);
        assert!(!format!("{notice:?}").contains("payload"), "{notice:?}");
    }
}

#[every_engine]
async fn settled_letters_are_removed_in_the_background_if_asked(db: &TestDb) {
    let old = Duration::from_secs(7_200);
    for status in ["pending", "resolved", "discarded"] {
        for failed_ago in [Duration::ZERO, old] {
            bury(
                db,
                &LetterRow {
                    status,
                    failed_ago,
                    ..LetterRow::default()
                },
            )
            .await;
        }
    }
    let eager = |builder: OutboxBuilder| {
        let tuning: WorkerTuning = OutboxProfile::default().vacuum;
        builder.vacuum_tuning(
            tuning
                .idle_interval(Duration::from_millis(20))
                .batch_size(1),
        )
    };
    let seen = RejectBad::default();
    // Without being asked everything stays.
    let running = eager(Outbox::builder(db.connection().clone()))
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    commit(db, "good").await;
    eventually("vacuum", async || {
        seen.0.lock().unwrap().len() == 1
            && db.number("SELECT COUNT(*) FROM outbox_body").await == 0
    })
    .await;
    running.stop().await;
    assert_eq!(letters(db).count(&all()).await.unwrap(), 6);
    // Also in a process that serves no queue.
    let running = eager(Outbox::builder(db.connection().clone()).dead_letter_retention(HOUR))
        .start()
        .await
        .unwrap();
    eventually("the old ones' end", async || {
        letters(db).count(&all()).await.unwrap() == 4
    })
    .await;
    // It goes on, and goes on to keep the others.
    for _ in 0..5 {
        let given = LetterRow {
            status: "resolved",
            failed_ago: old,
            ..LetterRow::default()
        };
        bury(db, &given).await;
        eventually("its end", async || {
            letters(db).count(&all()).await.unwrap() == 4
        })
        .await;
    }
    running.stop().await;
    assert_eq!(letters(db).count(&all()).await.unwrap(), 4);
    let left = "SELECT COUNT(*) FROM outbox_dead_letter WHERE completed_at IS NULL";
    assert_eq!(db.number(left).await, 2, "pending ones stay, however old");
}
