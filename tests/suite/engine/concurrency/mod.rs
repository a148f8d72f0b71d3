//! Many keys of a partition at a time, each key in order.

mod blocking;
mod history;
mod kills;
mod leases;
mod model;
mod switching;
mod throughput;
mod together;
mod world;

use super::*;
use outbox::enqueue_batch;
use outbox_runtime::Outbox;
use outbox_tests::every_engine;
use std::collections::BTreeSet;
use std::time::Instant;

const LOG: Queue = Queue::of("log", Partitions::of(1));

/// What a handler does with a message: how long it takes and what comes of it.
type Script = dyn Fn(&OutboxMessage) -> (Duration, HandlerResult) + Send + Sync;

/// Does what it is told, and watches that no key is there twice.
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
    fn taking(duration: Duration) -> Self {
        Self::new(move |_| (duration, HandlerResult::Success))
    }

    fn done(&self) -> Vec<String> {
        let state = self.state.lock().unwrap();
        assert_eq!(state.overlaps, 0, "a key was handled twice at once");
        state.done.clone()
    }

    /// The same where handlers may be dropped.
    fn done_unchecked(&self) -> Vec<String> {
        self.state.lock().unwrap().done.clone()
    }

    fn most(&self) -> usize {
        self.state.lock().unwrap().most
    }

    fn calls(&self) -> usize {
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
async fn commit_keys(db: &TestDb, keys: usize, each: usize) {
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
fn by_key(done: &[String]) -> BTreeMap<String, Vec<usize>> {
    let mut keys: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for text in done {
        let (key, n) = text.split_once(':').expect("key:n");
        keys.entry(key.to_owned())
            .or_default()
            .push(n.parse().expect("n"));
    }
    keys
}

fn log(db: &TestDb, concurrency: u32) -> outbox_runtime::QueueBuilder {
    Outbox::builder(db.connection().clone())
        .queue("log", LOG.partitions())
        .concurrency(concurrency)
}

#[every_engine]
async fn keys_run_side_by_side_and_each_in_its_order(db: &TestDb) {
    commit_keys(db, 8, 25).await;
    let watch = Watch::taking(Duration::from_millis(5));
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    let done = watch.done();
    assert_eq!((done.len(), watch.most()), (200, 4));
    for (key, numbers) in by_key(&done) {
        assert_eq!(numbers, (0..25).collect::<Vec<_>>(), "{key}");
    }
}

#[every_engine]
async fn a_key_that_fails_holds_up_no_other(db: &TestDb) {
    commit_keys(db, 10, 10).await;
    let watch = Watch::new(|message| {
        let fails = message.payload() == b"k3:0" && message.attempts() < 3;
        let failed = HandlerResult::retry_after(Duration::from_millis(700), "not yet");
        let result = if fails {
            failed
        } else {
            HandlerResult::Success
        };
        (Duration::from_millis(1), result)
    });
    let running = log(db, 4).leased(watch.clone()).start().await.unwrap();
    eventually("the other keys", async || watch.done().len() == 90).await;
    assert!(!by_key(&watch.done()).contains_key("k3"));
    let stats = running.stats().await.unwrap();
    let failing = &stats.queues[0].consumers[0].failing;
    assert_eq!((failing.len(), &*failing[0].key), (1, &b"k3"[..]));
    drained(db).await;
    running.stop().await;
    assert_eq!(watch.calls(), 103, "nothing else came twice");
    assert_eq!(by_key(&watch.done())["k3"], (0..10).collect::<Vec<_>>());
}

#[every_engine]
async fn a_full_window_waits_for_the_key_that_blocks_it(db: &TestDb) {
    commit_keys(db, 5, 40).await;
    let opened = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let open = opened.clone();
    let watch = Watch::new(move |message| {
        let fails =
            message.payload() == b"k0:0" && !open.load(std::sync::atomic::Ordering::Acquire);
        let failed = HandlerResult::retry_after(Duration::from_millis(50), "closed");
        let result = if fails {
            failed
        } else {
            HandlerResult::Success
        };
        (Duration::ZERO, result)
    });
    let running = log(db, 4)
        .window(50)
        .retry(soon(1_000))
        .leased(watch.clone())
        .start()
        .await
        .unwrap();
    // Of the fifty in the window ten are k0's.
    eventually("a full window", async || watch.done().len() == 40).await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        assert_eq!(watch.done().len(), 40);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    opened.store(true, std::sync::atomic::Ordering::Release);
    drained(db).await;
    running.stop().await;
    assert_eq!(watch.done().len(), 200);
    assert!(
        by_key(&watch.done())
            .values()
            .all(|numbers| numbers.is_sorted())
    );
}

#[every_engine]
async fn an_orderly_stop_hands_over_what_is_done_beyond_the_cursor(db: &TestDb) {
    commit_keys(db, 10, 10).await;
    let fails = |closed: bool| {
        Watch::new(move |message| {
            let fails = closed && message.payload() == b"k0:0";
            let failed = HandlerResult::retry_after(Duration::from_millis(400), "closed");
            (
                Duration::ZERO,
                if fails {
                    failed
                } else {
                    HandlerResult::Success
                },
            )
        })
    };
    let first = fails(true);
    let running = log(db, 4).leased(first.clone()).start().await.unwrap();
    eventually("the other keys", async || first.done().len() == 90).await;
    assert!(running.stop().await.clean);
    let second = fails(false);
    let running = log(db, 4).leased(second.clone()).start().await.unwrap();
    drained(db).await;
    running.stop().await;
    assert_eq!(
        second.done(),
        (0..10).map(|n| format!("k0:{n}")).collect::<Vec<_>>()
    );
}

#[every_engine]
async fn one_that_cannot_succeed_is_buried_ahead_of_the_cursor_once(db: &TestDb) {
    commit_keys(db, 4, 5).await;
    let script = |closed: bool| {
        move |message: &OutboxMessage| {
            let result = match message.payload() {
                b"k0:0" if closed => {
                    HandlerResult::retry_after(Duration::from_millis(400), "closed")
                }
                b"k1:2" => HandlerResult::reject("never"),
                b"k2:1" => HandlerResult::retry("no luck"),
                _ => HandlerResult::Success,
            };
            (Duration::ZERO, result)
        }
    };
    let first = Watch::new(script(true));
    let running = log(db, 4)
        .retry(soon(3))
        .leased(first.clone())
        .start()
        .await
        .unwrap();
    let letters = running.outbox().dead_letters();
    eventually("two letters", async || {
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap()
            == 2
            && first.done().len() == 13
    })
    .await;
    running.stop().await;
    let running = log(db, 4)
        .retry(soon(3))
        .leased(Watch::new(script(false)))
        .start()
        .await
        .unwrap();
    drained(db).await;
    let letters = running.outbox().dead_letters();
    assert_eq!(
        letters
            .count(&outbox::DeadLetterFilter::new())
            .await
            .unwrap(),
        2
    );
    running.stop().await;
}
