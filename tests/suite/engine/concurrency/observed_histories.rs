//! What handlers saw of a history, over all its processes, and whether that is right.

use super::generated_histories::{Fate, PlannedMessage};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A history as its handlers see it. Its messages are `key:n`.
#[derive(Default)]
pub(super) struct Observer {
    state: Mutex<Seen>,
    processes: AtomicUsize,
}

#[derive(Default)]
struct Seen {
    planned: BTreeMap<String, PlannedMessage>,
    /// By partition, in the order of their numbers.
    numbered: Vec<Vec<String>>,
    /// How many there are of each key.
    keys: BTreeMap<u8, usize>,
    calls: BTreeMap<String, u32>,
    /// With the process in which a message succeeded first.
    succeeded: BTreeMap<String, usize>,
    /// Known to be in the dead letters.
    buried: BTreeSet<String>,
    /// Processes and the keys they are at.
    running: BTreeSet<(usize, u8)>,
    /// Processes that stopped in order and never lost a lease.
    orderly: BTreeSet<usize>,
    violations: Vec<String>,
}

/// The handler of one process.
#[derive(Clone)]
pub(super) struct Worker {
    observer: Arc<Observer>,
    number: usize,
    lost_something: Arc<AtomicBool>,
}

impl Observer {
    pub(super) fn worker(self: &Arc<Self>) -> Worker {
        Worker {
            observer: self.clone(),
            number: self.processes.fetch_add(1, Ordering::Relaxed),
            lost_something: Arc::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Adds the next message of its key; returns its text.
    pub(super) fn add(&self, queue: &Queue, planned: PlannedMessage) -> String {
        let mut state = self.state();
        let n = state.keys.entry(planned.key).or_default();
        let text = format!("{}:{n}", planned.key);
        *n += 1;
        let partition = queue.partition_of_key(format!("k{}", planned.key).as_bytes()) as usize;
        let partitions = state.numbered.len().max(partition + 1);
        state.numbered.resize(partitions, Vec::new());
        state.numbered[partition].push(text.clone());
        state.planned.insert(text.clone(), planned);
        text
    }

    /// The messages of a partition up to a number.
    pub(super) fn numbered(&self, partition: usize, upto: i64) -> Vec<String> {
        let state = self.state();
        let all = state.numbered.get(partition).cloned().unwrap_or_default();
        let upto = usize::try_from(upto).expect("a number");
        assert!(upto <= all.len(), "a cursor beyond the end");
        all[..upto].to_vec()
    }

    pub(super) fn fate(&self, text: &str) -> Fate {
        self.state().planned[text].fate
    }

    pub(super) fn are_buried(&self, letters: &[String]) {
        self.state().buried.extend(letters.iter().cloned());
    }

    pub(super) fn has_succeeded(&self, text: &str) -> bool {
        self.state().succeeded.contains_key(text)
    }

    /// Whether everything is right at the end, with these dead letters.
    pub(super) fn verdict(&self, letters: &[String]) -> Result<(), String> {
        let state = self.state();
        if let Some(violation) = state.violations.first() {
            return Err(violation.clone());
        }
        for (text, planned) in &state.planned {
            let buried = letters.iter().filter(|letter| *letter == text).count();
            let expected = usize::from(matches!(planned.fate, Fate::Rejected | Fate::Hopeless));
            if buried != expected {
                return Err(format!("{text} has {buried} dead letters, not {expected}"));
            }
            if expected == 0 && !state.succeeded.contains_key(text) {
                return Err(format!("{text} was lost"));
            }
        }
        Ok(())
    }
}

impl Worker {
    /// Its process is no more, or no longer has its leases: what it did may come again.
    pub(super) fn ended(&self, orderly: bool) {
        if !orderly {
            self.lost_something.store(true, Ordering::Release);
        } else if !self.lost_something.load(Ordering::Acquire) {
            self.observer.state().orderly.insert(self.number);
        }
    }

    /// Whether none of its handlers runs.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.observer.state();
        state
            .running
            .iter()
            .all(|(number, _)| *number != self.number)
    }

    fn begin(&self, text: &str) -> (PlannedMessage, Running) {
        let (key, n) = text.split_once(':').expect("key:n");
        let (key, n): (u8, usize) = (key.parse().expect("key"), n.parse().expect("n"));
        let mut state = self.observer.state();
        let planned = state.planned[text];
        *state.calls.entry(text.to_owned()).or_default() += 1;
        let mut wrong = Vec::new();
        if !state.running.insert((self.number, key)) {
            wrong.push(format!("{text} began while another of its key ran"));
        }
        for before in (0..n).map(|n| format!("{key}:{n}")) {
            let settled = match state.planned[&before].fate {
                Fate::Fails(_) | Fate::Panics => state.succeeded.contains_key(&before),
                Fate::Rejected | Fate::Hopeless => state.calls.contains_key(&before),
            };
            if !settled {
                wrong.push(format!("{text} began before {before} was done"));
            }
        }
        if state.buried.contains(text) {
            wrong.push(format!("{text} came again after it was buried"));
        }
        if let Some(process) = state.succeeded.get(text)
            && state.orderly.contains(process)
        {
            wrong.push(format!("{text} came again after an orderly stop"));
        }
        state.violations.extend(wrong);
        drop(state);
        let running = Running(self.observer.clone(), (self.number, key));
        (planned, running)
    }

    fn end(&self, text: &str, planned: PlannedMessage) -> HandlerResult {
        let mut state = self.observer.state();
        let calls = state.calls[text];
        match planned.fate {
            Fate::Fails(times) if calls <= times => return HandlerResult::retry("not yet"),
            Fate::Panics if calls == 1 => {
                drop(state);
                std::panic::resume_unwind(Box::new("told to panic"));
            }
            Fate::Rejected => return HandlerResult::reject("never"),
            Fate::Hopeless => return HandlerResult::retry("never"),
            Fate::Fails(_) | Fate::Panics => {}
        }
        state
            .succeeded
            .entry(text.to_owned())
            .or_insert(self.number);
        HandlerResult::Success
    }
}

/// While a handler runs, until it is dropped.
struct Running(Arc<Observer>, (usize, u8));

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().running.remove(&self.1);
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Worker {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let text = String::from_utf8_lossy(message.payload()).into_owned();
        let (planned, _running) = self.begin(&text);
        tokio::time::sleep(Duration::from_millis(planned.takes)).await;
        self.end(&text, planned)
    }
}
