//! A handler that watches that no key runs twice at once, and messages of many keys for it.

use super::*;

/// What a handler does with a message: how long it takes and what comes of it.
type Script = dyn Fn(&OutboxMessage) -> (Duration, HandlerResult) + Send + Sync;

/// Does what it is told, and counts calls that overlap another call of their key.
#[derive(Clone)]
pub(super) struct Watch {
    script: Arc<Script>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    running: BTreeSet<Vec<u8>>,
    most: usize,
    done: Vec<String>,
    calls: usize,
    overlaps: usize,
}

impl Watch {
    pub(super) fn new(
        script: impl Fn(&OutboxMessage) -> (Duration, HandlerResult) + Send + Sync + 'static,
    ) -> Self {
        Self {
            script: Arc::new(script),
            state: Arc::default(),
        }
    }

    /// Everything succeeds after so long.
    pub(super) fn taking(duration: Duration) -> Self {
        Self::new(move |_| (duration, HandlerResult::Success))
    }

    pub(super) fn done(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        assert_eq!(state.overlaps, 0, "a key was handled twice at once");
        state.done.clone()
    }

    /// The same where handlers may be dropped.
    pub(super) fn done_unchecked(&self) -> Vec<String> {
        self.state.lock().unwrap().done.clone()
    }

    pub(super) fn most(&self) -> usize {
        self.state.lock().unwrap().most
    }

    pub(super) fn calls(&self) -> usize {
        self.state.lock().unwrap().calls
    }
}

#[async_trait::async_trait]
impl LeasedMessageHandler for Watch {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        let (duration, result) = (self.script)(message);
        {
            let mut state = self.state.lock().unwrap();
            state.calls += 1;
            state.overlaps += usize::from(!state.running.insert(message.key().to_vec()));
            state.most = state.most.max(state.running.len());
        }
        tokio::time::sleep(duration).await;
        let mut state = self.state.lock().unwrap();
        state.running.remove(message.key());
        if result == HandlerResult::Success {
            let text = String::from_utf8_lossy(message.payload()).into_owned();
            state.done.push(text);
        }
        result
    }
}

/// Commits `each` messages of each of `keys` keys, in turns.
pub(super) async fn commit_keys(db: &TestDb, keys: usize, each: usize) {
    let numbers = (0..each).flat_map(|n| (0..keys).map(move |key| (key, n)));
    let messages = numbers.map(|(key, n)| message(&format!("k{key}"), n));
    let messages: Vec<_> = messages.collect();
    for chunk in messages.chunks(500) {
        enqueue_batch(db.connection(), &LOG, chunk.to_vec())
            .await
            .unwrap();
    }
}

/// The messages of each key in the order in which they were done.
pub(super) fn by_key(done: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut keys: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for text in done {
        let (key, n) = text.split_once(':').expect("key:n");
        keys.entry(key.to_owned())
            .or_default()
            .push(n.parse().expect("n"));
    }
    keys
}

pub(super) fn log(db: &TestDb, concurrency: u32) -> outbox_runtime::QueueBuilder {
    Outbox::builder(db.connection().clone())
        .queue("log", LOG.partitions())
        .concurrency(concurrency)
}
