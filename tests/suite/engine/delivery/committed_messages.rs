//! Committed means delivered; rolled back means never seen.

use super::*;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;
use sea_orm::TransactionTrait;

#[every_engine]
async fn committed_messages_are_delivered_once_and_no_others(db: &TestDb) {
    let seen = Seen::default();
    for n in 0..50 {
        commit(db.connection(), "before", n).await;
    }
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    for n in 0..50 {
        let tx = db.connection().begin().await.unwrap();
        commit(&tx, "plain", n).await;
        tx.commit().await.unwrap();
        let tx = db.connection().begin().await.unwrap();
        commit(&tx, "undone", n).await;
        tx.rollback().await.unwrap();
        let tx = running.outbox().begin().await.unwrap();
        commit(&tx, "woken", n).await;
        tx.commit().await.unwrap();
    }
    seen.reaches(150).await;
    drained(db).await;
    let whole: Vec<usize> = (0..50).collect();
    let keys = seen.by_key();
    assert_eq!(
        keys.keys().collect::<Vec<_>>(),
        ["before", "plain", "woken"]
    );
    assert!(keys.values().all(|numbers| *numbers == whole), "{keys:?}");
    assert!(running.stop().await.clean);
}

#[every_engine]
async fn a_handler_sees_what_was_enqueued(db: &TestDb) {
    #[derive(Clone, Default)]
    struct SeenMessages(Arc<Mutex<Vec<OutboxMessage>>>);
    #[async_trait::async_trait]
    impl LeasedMessageHandler for SeenMessages {
        async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
            assert!(ctx.remaining() > Duration::from_secs(20));
            self.0.lock().unwrap().push(message.clone());
            HandlerResult::Success
        }
    }
    let keep = SeenMessages::default();
    let options = outbox::EnqueueOptions::new().header("trace", "abc");
    let sent = NewMessage::new("step", vec![0xff_u8, 0], vec![1_u8, 2, 3]).with(options);
    let before = std::time::SystemTime::now();
    let id = enqueue(db.connection(), &QUEUE, sent).await.unwrap();
    let running = Outbox::builder(db.connection().clone())
        .queue("orders", QUEUE.partitions())
        .leased(keep.clone())
        .start()
        .await
        .unwrap();
    eventually("the message", async || keep.0.lock().unwrap().len() == 1).await;
    let message = keep.0.lock().unwrap()[0].clone();
    assert_eq!(message.id(), id);
    assert_eq!((message.queue(), message.event_type()), ("orders", "step"));
    assert_eq!(
        (message.key(), message.payload()),
        (&[0xff, 0][..], &[1, 2, 3][..])
    );
    assert_eq!(message.partition(), QUEUE.partition_of_key(&[0xff, 0]));
    assert_eq!((message.sequence(), message.attempts()), (1, 0));
    assert_eq!(message.headers().get("trace"), Some("abc"));
    let age = message
        .enqueued_at()
        .duration_since(before)
        .unwrap_or_else(|e| e.duration());
    assert!(age < Duration::from_secs(30), "{age:?}");
    running.stop().await;
}
