//! Captures what the outbox logs, at every level. The suite is one process with one log: a test
//! finds its lines by a word that only it uses.

use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

/// Lines with one of these words are captured; other tests run in this process too.
const KEPT: [&str; 2] = ["logged-", "s3cret"];

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        if KEPT.iter().any(|word| text.contains(word)) {
            let mut lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
            lines.push(text.into_owned());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Begins to listen; what was logged before is lost.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ours = Targets::new().with_target("outbox", LevelFilter::TRACE);
        let lines = layer().with_ansi(false).with_writer(|| Lines);
        registry().with(lines.with_filter(ours)).init();
    });
}

/// The lines with both words in them.
pub(crate) fn lines(word: &str, other: &str) -> Vec<String> {
    let lines = LINES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = lines
        .iter()
        .filter(|line| line.contains(word) && line.contains(other));
    found.cloned().collect()
}
