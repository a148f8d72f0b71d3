//! Which messages of a partition may run now, if only the order of each key matters.
//!
//! Invariants: of a key at most one message runs, the first that is not done; the
//! place up to which everything is done never passes one that is not. Knows nothing
//! of databases, handlers or tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

/// The messages of a partition that are known and not behind the cursor.
pub(super) struct Lanes<M> {
    /// By sequence; `None` once done.
    entries: BTreeMap<i64, Option<Entry<M>>>,
    /// For each key the messages that are not done, in order.
    lanes: HashMap<Vec<u8>, VecDeque<i64>>,
    /// Messages that are the first of their key and may run.
    ready: BTreeSet<i64>,
    /// Messages that are the first of their key and wait until they are due.
    waiting: BTreeSet<(Instant, i64)>,
    running: BTreeSet<i64>,
    /// The bytes of all messages that are not done.
    bytes: usize,
    /// Everything up to here is done.
    processed: i64,
    /// The last message that was added.
    last: i64,
}

struct Entry<M> {
    key: Vec<u8>,
    message: M,
    bytes: usize,
    due: Option<Instant>,
}

impl<M> Lanes<M> {
    /// Everything up to `processed` is done; nothing beyond is known.
    pub(super) fn new(processed: i64) -> Self {
        Self {
            entries: BTreeMap::new(),
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            bytes: 0,
            processed,
            last: processed,
        }
    }

    /// Adds the next message; it does not run before `due`.
    pub(super) fn add(
        &mut self,
        seq: i64,
        key: Vec<u8>,
        message: M,
        bytes: usize,
        due: Option<Instant>,
    ) {
        self.last = seq;
        self.bytes += bytes;
        let lane = self.lanes.entry(key.clone()).or_default();
        lane.push_back(seq);
        let first = lane.len() == 1;
        let entry = Entry {
            key,
            message,
            bytes,
            due,
        };
        self.entries.insert(seq, Some(entry));
        if first {
            self.stand_first(seq);
        }
    }

    /// Adds the next message, which needs nothing.
    pub(super) fn add_done(&mut self, seq: i64) {
        self.last = seq;
        self.entries.insert(seq, None);
    }

    /// The oldest message that may run now.
    pub(super) fn next_ready(&mut self, now: Instant) -> Option<i64> {
        while let Some(&(due, seq)) = self.waiting.first() {
            if due > now {
                break;
            }
            self.waiting.pop_first();
            self.ready.insert(seq);
        }
        self.ready.first().copied()
    }

    /// A ready message runs from now on.
    pub(super) fn start(&mut self, seq: i64) {
        if self.ready.remove(&seq) {
            self.running.insert(seq);
        }
    }

    /// A message that is ready or runs is done; the next of its key may follow.
    pub(super) fn finish(&mut self, seq: i64) {
        self.running.remove(&seq);
        self.ready.remove(&seq);
        let Some(entry) = self.entries.get_mut(&seq).and_then(Option::take) else {
            return;
        };
        self.bytes -= entry.bytes;
        let Some(lane) = self.lanes.get_mut(&entry.key) else {
            return;
        };
        lane.pop_front();
        match lane.front().copied() {
            Some(next) => self.stand_first(next),
            None => drop(self.lanes.remove(&entry.key)),
        }
    }

    /// A message that ran is to run again, not before `due`.
    pub(super) fn postpone(&mut self, seq: i64, due: Option<Instant>) {
        if !self.running.remove(&seq) {
            return;
        }
        if let Some(Some(entry)) = self.entries.get_mut(&seq) {
            entry.due = due;
        }
        self.stand_first(seq);
    }

    /// The message, unless it is done.
    pub(super) fn message(&mut self, seq: i64) -> Option<&mut M> {
        let entry = self.entries.get_mut(&seq)?.as_mut()?;
        Some(&mut entry.message)
    }

    /// The last message before which everything is done. What is behind it is forgotten.
    pub(super) fn processed(&mut self) -> i64 {
        while let Some(entry) = self.entries.first_entry() {
            if entry.get().is_some() {
                break;
            }
            self.processed = *entry.key();
            entry.remove();
        }
        self.processed
    }

    /// The last message that was added.
    pub(super) fn last(&self) -> i64 {
        self.last
    }

    /// How far ahead of what is processed messages are known.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// The oldest message that runs.
    pub(super) fn first_running(&self) -> Option<i64> {
        self.running.first().copied()
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Whether everything known is done.
    pub(super) fn all_done(&self) -> bool {
        self.lanes.is_empty()
    }

    /// When the next message that waits may run.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// The messages that are done although one before them is not.
    pub(super) fn done_beyond(&self) -> Vec<i64> {
        let done = self.entries.iter().filter(|(_, entry)| entry.is_none());
        done.map(|(seq, _)| *seq).collect()
    }

    /// A message is the first of its key now.
    fn stand_first(&mut self, seq: i64) {
        let due = self.entries.get(&seq).and_then(|entry| entry.as_ref()?.due);
        match due {
            Some(due) => self.waiting.insert((due, seq)),
            None => self.ready.insert(seq),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn lanes(keys: &str) -> Lanes<()> {
        let mut lanes = Lanes::new(10);
        for (seq, key) in (11..).zip(keys.bytes()) {
            lanes.add(seq, vec![key], (), 100, None);
        }
        lanes
    }

    /// Starts everything that may run.
    fn start_all(lanes: &mut Lanes<()>, now: Instant) -> Vec<i64> {
        let mut started = Vec::new();
        while let Some(seq) = lanes.next_ready(now) {
            lanes.start(seq);
            started.push(seq);
        }
        started
    }

    #[test]
    fn of_each_key_the_first_that_is_not_done_may_run() {
        let (mut lanes, now) = (lanes("aabab"), Instant::now());
        assert_eq!(start_all(&mut lanes, now), [11, 13]);
        lanes.finish(13);
        assert_eq!(start_all(&mut lanes, now), [15]);
        assert_eq!((lanes.processed(), lanes.running()), (10, 2));
        lanes.finish(11);
        lanes.finish(15);
        assert_eq!(lanes.processed(), 11);
        assert_eq!(lanes.done_beyond(), [13, 15]);
        assert_eq!((lanes.len(), lanes.bytes()), (4, 200));
        assert_eq!(start_all(&mut lanes, now), [12]);
        lanes.finish(12);
        assert_eq!(lanes.processed(), 13);
        assert_eq!(start_all(&mut lanes, now), [14]);
        lanes.finish(14);
        assert!(lanes.all_done());
        assert_eq!((lanes.processed(), lanes.len(), lanes.bytes()), (15, 0, 0));
    }

    #[test]
    fn one_that_waits_holds_up_its_key_and_no_other() {
        let (mut lanes, now) = (lanes("aab"), Instant::now());
        assert_eq!(start_all(&mut lanes, now), [11, 13]);
        let later = now + Duration::from_secs(1);
        lanes.postpone(11, Some(later));
        lanes.finish(13);
        assert_eq!(start_all(&mut lanes, now), [0; 0]);
        assert_eq!((lanes.next_due(), lanes.processed()), (Some(later), 10));
        assert_eq!(start_all(&mut lanes, later), [11]);
        lanes.finish(11);
        assert_eq!(start_all(&mut lanes, later), [12]);
    }

    #[test]
    fn one_that_is_known_to_wait_waits_when_its_turn_comes() {
        let (mut lanes, now) = (Lanes::new(0), Instant::now());
        let later = now + Duration::from_secs(1);
        lanes.add(1, vec![1], (), 1, None);
        lanes.add(2, vec![1], (), 1, Some(later));
        lanes.add_done(3);
        assert_eq!(start_all(&mut lanes, now), [1]);
        assert_eq!(lanes.next_due(), None);
        lanes.finish(1);
        assert_eq!(start_all(&mut lanes, now), [0; 0]);
        assert_eq!(start_all(&mut lanes, later), [2]);
        lanes.finish(2);
        assert_eq!(lanes.processed(), 3);
    }
}
