//! What `start()` logs.

use super::*;
use outbox_tests::every_engine;
use std::io::{self, Write};
use tracing::subscriber::set_default;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, registry};

outbox::queue!(Talk = "talk", partitions = 8);

#[outbox_event(queue = Talk, name = "said")]
#[derive(Serialize, Deserialize)]
struct Said;

/// No handler takes it.
#[outbox_event(queue = Talk, name = "whispered")]
#[derive(Serialize, Deserialize)]
struct Whispered;

#[outbox_handler(mode = leased)]
async fn hear(_: Said) {}

#[outbox_handler(mode = transactional, consumer = "minutes")]
async fn write_down(_: Said) {}

/// What is logged, as text.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[every_engine]
async fn the_start_logs_a_line_for_each_queue_and_warns_of_unhandled_events(db: &TestDb) {
    let log = Log::default();
    let writer = log.clone();
    // Only what the outbox says: on a busy machine the pool warns of slow connections.
    let ours = Targets::new().with_target("outbox", LevelFilter::INFO);
    let lines = layer().with_ansi(false).with_writer(move || writer.clone());
    let subscriber = registry().with(lines.with_filter(ours));
    let running = {
        let _guard = set_default(subscriber);
        start(db, outbox::handlers![hear, write_down], &Journal::default()).await
    };
    running.stop().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let of_queue: Vec<_> = log
        .lines()
        .filter(|line| line.contains("queue=\"talk\""))
        .collect();
    assert_eq!(of_queue.len(), 1, "{log}");
    for part in [
        "INFO",
        "partitions=8",
        "default (leased: handlers::log::hear)",
        "minutes (transactional: handlers::log::write_down)",
    ] {
        assert!(
            of_queue[0].contains(part),
            "{part} is not in {}",
            of_queue[0]
        );
    }
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(
        warnings[0].contains("event `whispered` of queue `talk`"),
        "{log}"
    );
}
