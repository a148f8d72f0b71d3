//! Random histories: keys, durations, failures, stolen leases, restarts, crashes, pauses. Whatever
//! happens, each key stays in order, nothing is lost, no key runs twice at once, and no cursor
//! passes an unfinished message.

use super::generated_histories::{Event, Fate, History, Step, history};
use super::observed_histories::{Observer, Worker};
use super::*;
use futures_util::FutureExt;
use outbox_runtime::{OutboxHandle, OutboxProfile};
use outbox_tests::Engine;
use proptest::prelude::*;
use sea_orm::{ConnectOptions, Database};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use tokio::runtime::Runtime;

/// More than crashes and failures of a history can add up to for a message that
/// succeeds in the end.
const MOST_ATTEMPTS: u32 = 10;

/// Long enough for a busy machine. After a crash the lease is cut short, unless a statement of the
/// dead process comes after that.
const LEASE: LeaseConfig = LeaseConfig {
    duration: Duration::from_secs(5),
    headroom: Duration::from_secs(1),
};

/// A process: what runs in it ends with its runtime, wherever it is.
struct Process {
    runtime: Runtime,
    handle: OutboxHandle,
    worker: Worker,
}

/// A history on its way.
struct Case<'a> {
    db: &'a TestDb,
    queue: Queue,
    history: History,
    observer: Arc<Observer>,
    process: Option<Process>,
    /// Handles of processes that died. They are not dropped, because a drop would tell the engine
    /// to stop.
    dead_handles: Vec<OutboxHandle>,
    violation: Option<String>,
}

impl Case<'_> {
    async fn start(&mut self, concurrency: u32) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let worker = self.observer.worker();
        let (name, partitions) = (self.queue.name().to_owned(), self.queue.partitions());
        let (url, handler) = (self.db.url().to_owned(), worker.clone());
        let (window, batch) = (self.history.window, self.history.batch);
        let started = runtime.spawn(async move {
            let mut options = ConnectOptions::new(url);
            options
                .max_connections(4)
                .sqlx_logging(false)
                .map_sqlx_sqlite_opts(|sqlite| {
                    let off = sea_orm::sqlx::sqlite::SqliteSynchronous::Off;
                    sqlite
                        .busy_timeout(Duration::from_secs(60))
                        .synchronous(off)
                });
            let db = Database::connect(options).await.expect("connect");
            let mut profile = OutboxProfile::low_latency();
            profile.reconciler = profile.reconciler.idle_interval(Duration::from_millis(25));
            Outbox::builder(db)
                .profile(profile)
                .queue(name, partitions)
                .concurrency(concurrency)
                .window(window)
                .batch(batch)
                .lease(LEASE)
                .retry(soon(MOST_ATTEMPTS))
                .leased(handler)
                .start()
                .await
                .expect("start")
        });
        let handle = started.await.expect("started");
        self.process = Some(Process {
            runtime,
            handle,
            worker,
        });
    }

    /// An orderly stop.
    async fn stop(&mut self) {
        let process = self.process.take().expect("a process");
        let stopping = process.runtime.spawn(process.handle.stop());
        stopping.await.expect("stopped");
        process.runtime.shutdown_background();
        process.worker.ended(true);
    }

    /// Running handlers are dropped where they are; then the lease runs out.
    async fn crash(&mut self) {
        let process = self.process.take().expect("a process");
        let Process {
            runtime, handle, ..
        } = process;
        runtime.shutdown_background();
        self.dead_handles.push(handle);
        process.worker.ended(false);
        eventually("the end of what ran", async || process.worker.is_quiet()).await;
        let (past, these) = (self.db.from_now(-1), self.cursors());
        self.db
            .execute(&format!(
                "UPDATE outbox_cursor SET lease_owner = 'dead', lease_until = {past}, \
                    lease_epoch = lease_epoch + 1 WHERE {these}"
            ))
            .await;
    }

    /// Another process has all leases for a while.
    async fn steal(&mut self, millis: u64) {
        let process = self.process.as_ref().expect("a process");
        process.worker.ended(false);
        let (later, these) = (self.db.from_now(60_000), self.cursors());
        self.db
            .execute(&format!(
                "UPDATE outbox_cursor SET lease_owner = 'thief', lease_until = {later}, \
                    lease_epoch = lease_epoch + 1 WHERE {these}"
            ))
            .await;
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.db
            .execute(&format!(
                "UPDATE outbox_cursor SET lease_owner = NULL, lease_until = NULL \
                 WHERE {these} AND lease_owner = 'thief'"
            ))
            .await;
    }

    fn cursors(&self) -> String {
        let first = self.queue.id();
        let last = first + i64::from(self.queue.partitions().count()) - 1;
        format!("partition_id BETWEEN {first} AND {last}")
    }

    async fn step(&mut self, step: &Step) {
        for message in &step.messages {
            let text = self.observer.add(&self.queue, *message);
            let key = format!("k{}", message.key);
            enqueue(
                self.db.connection(),
                &self.queue,
                NewMessage::new("step", key, text),
            )
            .await
            .expect("enqueue");
        }
        tokio::time::sleep(Duration::from_millis(step.after)).await;
        self.check_cursors().await;
        match step.event {
            Event::None => {}
            Event::Restart(concurrency) => {
                self.stop().await;
                self.check_cursors().await;
                self.start(concurrency).await;
            }
            Event::Crash(concurrency) => {
                self.crash().await;
                self.check_cursors().await;
                self.start(concurrency).await;
            }
            Event::Steal(millis) => self.steal(millis).await,
            Event::Pause(millis) => {
                let outbox = self.process.as_ref().expect("a process").handle.outbox();
                outbox.pause(self.queue.name()).await.expect("pause");
                tokio::time::sleep(Duration::from_millis(millis)).await;
                outbox.resume(self.queue.name()).await.expect("resume");
            }
        }
    }

    /// Reads the cursor first, then what is done: every message that the cursor has passed must be
    /// done.
    async fn check_cursors(&mut self) {
        let these = self.cursors();
        let cursors =
            format!("SELECT processed_seq FROM outbox_cursor WHERE {these} ORDER BY partition_id");
        let cursors = self.db.column(&cursors).await;
        let letters = self.letters().await;
        self.observer.are_buried(&letters);
        for (partition, processed) in cursors.into_iter().enumerate() {
            let passed = self.observer.numbered(partition, processed);
            for text in passed {
                let done = match self.observer.fate(&text) {
                    Fate::Fails(_) | Fate::Panics => self.observer.has_succeeded(&text),
                    Fate::Rejected | Fate::Hopeless => letters.contains(&text),
                };
                if !done {
                    let found = format!("the cursor is beyond {text}, which is not done");
                    self.violation.get_or_insert(found);
                }
            }
        }
    }

    async fn letters(&self) -> Vec<String> {
        let letters = outbox::DeadLetters::new(self.db.connection().clone());
        let filter = outbox::DeadLetterFilter::new().queue(self.queue.name());
        let found = letters.list(&filter.limit(1_000)).await.expect("letters");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.iter().map(|letter| text(&letter.payload)).collect()
    }

    /// Waits until everything is behind the cursors and nothing is on record.
    async fn drained(&self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        let (these, id, now) = (self.cursors(), self.queue.id(), self.db.from_now(0));
        let waiting = format!(
            "SELECT (SELECT COUNT(*) FROM outbox_incoming WHERE queue_id = {id}) \
                + (SELECT COUNT(*) FROM outbox_attempt WHERE {these}) \
                + (SELECT COUNT(*) FROM outbox_cursor c JOIN outbox_partition p \
                    ON p.id = c.partition_id WHERE {these} \
                    AND (c.processed_seq < p.sequence OR c.lease_until > {now}))"
        );
        while self.db.number(&waiting).await > 0 {
            if Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    async fn run(mut self) -> Result<(), String> {
        self.start(self.history.concurrency).await;
        let steps = std::mem::take(&mut self.history.steps);
        for step in &steps {
            self.step(step).await;
        }
        let drained = self.drained().await;
        self.check_cursors().await;
        let mut letters = self.letters().await;
        self.stop().await;
        letters.sort();
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        if !drained {
            return Err("it did not come to an end".into());
        }
        self.observer.verdict(&letters)
    }
}

type Answer = Result<(), String>;

/// Histories run at the same time, each on its own database.
struct Slots(Vec<mpsc::Sender<(History, mpsc::Sender<Answer>)>>);

impl Slots {
    fn open(engine: Engine, count: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let slot = |_| {
            let (sender, receiver) = mpsc::channel::<(History, mpsc::Sender<Answer>)>();
            std::thread::spawn(move || {
                outbox_tests::run(engine, true, |db| {
                    Box::pin(async move {
                        while let Ok((history, answer)) = receiver.recv() {
                            let n = NUMBER.fetch_add(1, Ordering::Relaxed);
                            let queue = Queue::try_of(format!("history{n}"), history.partitions);
                            let case = Case {
                                db,
                                queue: queue.expect("a queue"),
                                history,
                                observer: Arc::default(),
                                process: None,
                                dead_handles: Vec::new(),
                                violation: None,
                            };
                            let ended = AssertUnwindSafe(case.run()).catch_unwind().await;
                            let panicked = |_| Err("it panicked, see above".to_owned());
                            let _ = answer.send(ended.unwrap_or_else(panicked));
                        }
                    })
                });
            });
            sender
        };
        Self((0..count).map(slot).collect())
    }

    /// Runs as many histories as there are slots at once.
    fn run(&self, histories: Vec<History>) -> Result<(), TestCaseError> {
        let answers: Vec<_> = histories
            .into_iter()
            .zip(&self.0)
            .map(|(history, slot)| {
                let (sender, receiver) = mpsc::channel();
                let text = format!("{history:?}");
                slot.send((history, sender)).expect("the slot's thread");
                (text, receiver)
            })
            .collect();
        for (history, answer) in answers {
            let answer = answer.recv().expect("the slot's thread");
            answer.map_err(|violation| TestCaseError::fail(format!("{violation}: {history}")))?;
        }
        Ok(())
    }
}

/// So many times as many histories as are run at once.
fn histories(engine: Engine, at_once: usize, times: u32) {
    let slots = Slots::open(engine, at_once);
    let config = ProptestConfig {
        cases: times,
        max_shrink_iters: 20,
        source_file: Some(file!()),
        ..ProptestConfig::default()
    };
    let strategy = proptest::collection::vec(history(), at_once..=at_once);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    if let Err(error) = runner.run(&strategy, |histories| slots.run(histories)) {
        panic!("{error}");
    }
}

mod whatever_happens_keys_are_in_order_and_nothing_is_lost {
    use super::*;

    #[test]
    fn sqlite() {
        histories(Engine::Sqlite, 10, 52);
    }

    #[test]
    fn postgres() {
        histories(Engine::Postgres, 6, 8);
    }

    #[test]
    fn mysql() {
        histories(Engine::MySql, 6, 8);
    }
}
