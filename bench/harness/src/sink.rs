//! Where messages arrive: counted, checked for order and completeness, and timed.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What every contestant sends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payload {
    /// The key.
    pub key: u32,
    /// The number of the message among those of its key.
    pub number: u32,
    /// When its transaction was about to begin, in microseconds since 1970.
    pub sent: u64,
    /// Makes the payload as large as asked for.
    pub filler: String,
}

/// The clock of all processes of a run.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_micros() as u64)
}

/// When a message's commit returned to its producer.
#[derive(Clone, Copy)]
pub(crate) struct Commit {
    pub(crate) key: u32,
    pub(crate) number: u32,
    pub(crate) at: u64,
}

/// Where handlers put the messages that they get.
pub struct Sink {
    arrived: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    keys: HashMap<u32, Arrivals>,
    duplicates: usize,
    out_of_order: usize,
    /// From the beginning of the transaction to the handler.
    latency: Histogram<u64>,
    /// When each message was handled, if the workload needs that.
    times: Option<HashMap<(u32, u32), u64>>,
    /// Whether each message is printed on standard output, for another process.
    told: bool,
}

/// The numbers of a key that arrived.
#[derive(Default)]
struct Arrivals {
    /// One bit each.
    bits: Vec<u64>,
    /// The number after the highest.
    next: u32,
}

impl Arrivals {
    /// Whether it was there already.
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let again = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        again
    }
}

/// What a sink saw.
#[derive(Serialize)]
pub(crate) struct Seen {
    /// Without messages that came again.
    pub(crate) arrived: usize,
    pub(crate) duplicates: usize,
    /// First arrivals after a higher number of their key.
    pub(crate) out_of_order: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p90_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) max_ms: f64,
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            arrived: AtomicUsize::new(0),
            state: Mutex::new(State {
                keys: HashMap::new(),
                duplicates: 0,
                out_of_order: 0,
                latency: Histogram::new(3).expect("three digits are fine"),
                times: None,
                told: false,
            }),
        }
    }
}

impl Sink {
    /// A handler got this.
    pub fn take(&self, payload: &Payload) {
        let now = now();
        self.took(payload.key, payload.number, payload.sent, now);
    }

    pub(crate) fn took(&self, key_number: u32, number: u32, sent: u64, now: u64) {
        let mut state = self.lock();
        if state.told {
            println!("{key_number} {number} {sent} {now}");
        }
        let key = state.keys.entry(key_number).or_default();
        let again = key.insert(number);
        let late = !again && number < key.next;
        key.next = key.next.max(number + 1);
        if again {
            state.duplicates += 1;
            return;
        }
        state.out_of_order += usize::from(late);
        let took = now.saturating_sub(sent).max(1);
        let _ = state.latency.record(took);
        if let Some(times) = &mut state.times {
            times.insert((key_number, number), now);
        }
        drop(state);
        self.arrived.fetch_add(1, Ordering::Release);
    }

    /// A sink that prints each message for another process.
    pub(crate) fn telling() -> Self {
        let sink = Self::default();
        sink.lock().told = true;
        sink
    }

    /// A sink that remembers when each message was handled.
    pub(crate) fn with_times() -> Self {
        let sink = Self::default();
        sink.lock().times = Some(HashMap::new());
        sink
    }

    /// Counts from the commits instead. A message that was handled before its producer knew of the
    /// commit took no time.
    pub(crate) fn count_from(&self, commits: &[Commit]) {
        let mut state = self.lock();
        let times = state.times.take().unwrap_or_default();
        state.latency.reset();
        for commit in commits {
            if let Some(handled) = times.get(&(commit.key, commit.number)) {
                let took = handled.saturating_sub(commit.at).max(1);
                let _ = state.latency.record(took);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no handler panics here")
    }

    pub(crate) fn arrived(&self) -> usize {
        self.arrived.load(Ordering::Acquire)
    }

    pub(crate) fn seen(&self) -> Seen {
        let state = self.lock();
        let ms = |micros: u64| micros as f64 / 1000.0;
        let latency = |quantile| ms(state.latency.value_at_quantile(quantile));
        Seen {
            arrived: self.arrived(),
            duplicates: state.duplicates,
            out_of_order: state.out_of_order,
            p50_ms: latency(0.5),
            p90_ms: latency(0.9),
            p99_ms: latency(0.99),
            max_ms: ms(state.latency.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of numbers of the keys 1 and 2.
    fn seen(arrivals: &[(u32, u32)]) -> (usize, usize, usize) {
        let sink = Sink::default();
        for (key, number) in arrivals {
            sink.took(*key, *number, 0, 1);
        }
        let seen = sink.seen();
        (seen.arrived, seen.duplicates, seen.out_of_order)
    }

    #[test]
    fn what_comes_again_or_late_is_counted() {
        assert_eq!(seen(&[(1, 0), (2, 0), (1, 1), (2, 1)]), (4, 0, 0));
        assert_eq!(seen(&[(1, 0), (1, 2), (1, 1)]), (3, 0, 1));
        assert_eq!(seen(&[(1, 0), (1, 1), (1, 0)]), (2, 1, 0));
        assert_eq!(seen(&[(1, 1), (2, 0), (1, 0)]), (3, 0, 1));
        assert_eq!(seen(&[(1, 64), (1, 64), (1, 0)]), (2, 1, 1));
    }

    #[test]
    fn latency_is_from_the_commit_where_that_is_known() {
        let sink = Sink::with_times();
        sink.took(1, 0, 0, 9_000);
        let at = 7_000;
        sink.count_from(&[Commit {
            key: 1,
            number: 0,
            at,
        }]);
        assert!((sink.seen().p50_ms - 2.0).abs() < 0.01);
    }
}
