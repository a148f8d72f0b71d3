//! Payloads, keys, header values and passwords are in no log, no error and no `Debug`.

use super::*;
use crate::captured_log::{lines, listen};
use outbox::{DeadLetterFilter, EnqueueOptions, NewMessage, Outbox, Queue, enqueue};
use outbox_tests::{Engine, TestDb, eventually, every_engine};
use sea_orm::{ConnectOptions, Database, DatabaseTransaction};
use std::error::Error;
use std::sync::{Arc, Mutex};

/// In every secret, of the test on this engine.
fn secret(engine: Engine) -> String {
    format!("s3cret-{engine:?}")
}

fn message(event_type: &'static str, secret: &str) -> NewMessage {
    let key = format!("key-{secret}");
    let options = EnqueueOptions::new().header("authorization", format!("header-{secret}"));
    NewMessage::new(event_type, key, format!("payload-{secret}")).with(options)
}

/// Keeps everything that can be shown, and does what it is told.
#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<String>>>);

impl Shown {
    fn keep(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn keep_error(&self, error: &(dyn Error + 'static)) {
        self.keep(format!("{error} {error:?}"));
        let mut cause = error.source();
        while let Some(error) = cause {
            self.keep(error.to_string());
            cause = error.source();
        }
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Shown {
    async fn handle(&self, message: &OutboxMessage, ctx: &Ctx) -> HandlerResult {
        self.keep(format!("{message:?} {:?} {ctx:?}", message.headers()));
        Obedient::default().handle(message, ctx).await
    }
}

#[async_trait::async_trait]
impl outbox::TransactionalMessageHandler for Shown {
    async fn handle(
        &self,
        _: &DatabaseTransaction,
        message: &OutboxMessage,
        ctx: &Ctx,
    ) -> HandlerResult {
        LeasedMessageHandler::handle(self, message, ctx).await
    }
}

/// Makes the database refuse bodies of one type, as a rule of an operator's own does.
async fn refuse_bodies(db: &TestDb) {
    db.execute(match db.engine() {
        Engine::Postgres | Engine::MySql => {
            "ALTER TABLE outbox_body ADD CONSTRAINT rule CHECK (event_type <> 'refused')"
        }
        Engine::Sqlite => {
            "CREATE TRIGGER rule BEFORE INSERT ON outbox_body WHEN NEW.event_type = 'refused' \
             BEGIN SELECT RAISE(ABORT, 'no'); END"
        }
    })
    .await;
}

#[every_engine]
async fn no_log_no_error_and_no_debug_output_has_a_secret(db: &TestDb) {
    listen();
    let (secret, shown) = (secret(db.engine()), Shown::default());
    let queue = Queue::of("secretive", ONE);
    let notices = shown.clone();
    let mut builder = Outbox::builder(db.connection().clone())
        .on_dead_letter(move |notice| notices.keep(format!("{notice:?}")));
    for (consumer, concurrency) in [("one", 1), ("many", 4)] {
        builder = builder
            .queue("secretive", ONE)
            .consumer(consumer)
            .concurrency(concurrency)
            .retry(TWICE)
            .leased(shown.clone());
    }
    let running = builder
        .queue("secretive", ONE)
        .consumer("exact")
        .retry(TWICE)
        .transactional(shown.clone())
        .start()
        .await
        .unwrap();
    for event_type in ["fine", "fail", "reject", "panic"] {
        let message = message(event_type, &secret);
        shown.keep(format!("{message:?}"));
        enqueue(db.connection(), &queue, message).await.unwrap();
    }
    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new().key(format!("key-{secret}"));
    shown.keep(format!("{all:?}"));
    eventually("the dead letters", async || {
        let stats = running.stats().await.unwrap();
        shown.keep(format!("{stats:?}"));
        letters.count(&all).await.unwrap() == 9
    })
    .await;
    shown.keep(format!("{:?}", letters.list(&all).await.unwrap()));
    shown.keep(format!(
        "{:?}",
        letters
            .replay(all.clone(), Duration::from_secs(9))
            .await
            .unwrap()
    ));

    refuse_bodies(db).await;
    let refused = enqueue(db.connection(), &queue, message("refused", &secret)).await;
    shown.keep_error(&refused.unwrap_err());
    let list = [message("fine", &secret), message("refused", &secret)];
    let refused = outbox::enqueue_batch(db.connection(), &queue, list).await;
    shown.keep_error(&refused.unwrap_err());
    let long = enqueue(
        db.connection(),
        &queue,
        message("fine", &secret.repeat(100)),
    )
    .await;
    shown.keep_error(&long.unwrap_err());
    shown.keep(format!("{:?}", running.stop().await));

    let told = shown.0.lock().unwrap();
    assert!(
        told.iter().any(|text| text.contains("authorization")),
        "names are shown"
    );
    for text in told.iter().chain(&lines(&secret, "")) {
        assert!(!text.contains("s3cret"), "{text}");
        // As PostgreSQL would quote bytes.
        assert!(!text.contains("733363726574"), "{text}");
    }
}

#[tokio::test]
async fn a_password_is_in_no_error() {
    listen();
    for scheme in ["postgres", "mysql"] {
        let mut options =
            ConnectOptions::new(format!("{scheme}://user:s3cret-password@127.0.0.1:1/shop"));
        options
            .connect_lazy(true)
            .acquire_timeout(Duration::from_millis(50));
        let db = Database::connect(options).await.unwrap();
        let shown = Shown::default();
        let queue = Queue::of("unreachable", ONE);
        let refused = enqueue(&db, &queue, NewMessage::new("fine", 1, "")).await;
        shown.keep_error(&refused.unwrap_err());
        let refused = Outbox::builder(db)
            .queue("unreachable", ONE)
            .leased(Obedient::default())
            .start()
            .await;
        shown.keep_error(&refused.err().expect("nobody is there"));
        for text in shown.0.lock().unwrap().iter() {
            assert!(!text.contains("s3cret"), "{text}");
        }
    }
    assert_eq!(lines("s3cret-password", ""), Vec::<String>::new());
}
