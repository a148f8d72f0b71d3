//! Several real processes on one database, one of them killed.

use super::order::Keys;
use super::*;
use outbox_tests::{Engine, every_server};
use std::process::{Child, Command, Stdio};

/// A worker process; it ends with the test whatever happens to the test.
pub(super) struct Worker(Child);

impl Worker {
    fn spawn(db: &TestDb) -> Self {
        Self::with(db, &["2000"])
    }

    /// With the pace, and what else the worker is told.
    pub(super) fn with(db: &TestDb, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_outbox-test-worker"))
            .args([db.url(), "orders", "4"])
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the worker");
        Self(child)
    }

    /// Whether it has died.
    pub(super) fn is_dead(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_some()
    }

    /// The most memory it ever had, in bytes, as Linux knows it.
    pub(super) fn peak_memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(path).expect("its status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: usize = peak
            .and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok())
            .expect("a peak in kB");
        kib * 1024
    }

    /// SIGKILL: it can tell nobody.
    pub(super) fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }

    /// An orderly end.
    pub(super) async fn stop(&mut self) {
        drop(self.0.stdin.take());
        let child = Mutex::new(&mut self.0);
        eventually("the worker's end", async || {
            let ended = child.lock().unwrap().try_wait().expect("wait");
            ended.is_some_and(|status| status.success())
        })
        .await;
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where workers write what they are given.
pub(super) async fn create_delivery(db: &TestDb) {
    let id = match db.engine() {
        Engine::Postgres => "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        Engine::MySql => "id BIGINT AUTO_INCREMENT PRIMARY KEY",
        Engine::Sqlite => "id INTEGER PRIMARY KEY AUTOINCREMENT",
    };
    let columns =
        "consumer VARCHAR(16) NOT NULL, worker BIGINT NOT NULL, note VARCHAR(64) NOT NULL";
    db.execute(&format!("CREATE TABLE delivery ({id}, {columns})"))
        .await;
}

pub(super) async fn deliveries(db: &TestDb, condition: &str) -> i64 {
    db.number(&format!(
        "SELECT COUNT(DISTINCT note) FROM delivery WHERE {condition}"
    ))
    .await
}

#[every_server]
async fn three_processes_keep_order_and_lose_nothing_when_one_is_killed(db: &TestDb) {
    create_delivery(db).await;
    let mut workers: Vec<Worker> = (0..3).map(|_| Worker::spawn(db)).collect();
    // A consumer that joins later starts at the present.
    eventually("both consumers", async || {
        db.number("SELECT COUNT(*) FROM outbox_consumer").await == 2
    })
    .await;
    let mut keys = Keys::new(12);
    let connections = [db.connect().await];
    let queue = QUEUE;
    let producing = keys.produce(&connections, &queue, 8, 60);
    let killing = async {
        // Whoever is at work in the middle of it is killed.
        eventually("a third of the deliveries", async || {
            deliveries(db, "consumer = 'default'").await > 160
        })
        .await;
        let latest =
            "SELECT worker FROM delivery WHERE consumer = 'default' ORDER BY id DESC LIMIT 1";
        let victim = db.number(latest).await;
        let found = workers
            .iter_mut()
            .find(|worker| i64::from(worker.0.id()) == victim);
        let victim = found.expect("one of ours");
        victim.kill();
        *victim = Worker::spawn(db);
    };
    tokio::join!(producing, killing);
    let total = i64::try_from(keys.total()).unwrap();
    for consumer in ["default", "ledger"] {
        let condition = format!("consumer = '{consumer}'");
        eventually(&format!("{total} deliveries to {consumer}"), async || {
            deliveries(db, &condition).await >= total
        })
        .await;
        let seen = Seen::default();
        let notes = format!("SELECT note FROM delivery WHERE {condition} ORDER BY id");
        *seen.0.lock().unwrap() = db.texts(&notes).await;
        keys.assert_in_order(&seen.by_key());
        if consumer == "ledger" {
            assert_eq!(seen.count(), keys.total(), "exactly once");
        }
    }
    for worker in &mut workers {
        worker.stop().await;
    }
    drained_leases(db).await;
}

/// After an orderly stop nobody holds a lease.
async fn drained_leases(db: &TestDb) {
    let held = "SELECT COUNT(*) FROM outbox_cursor WHERE lease_until IS NOT NULL";
    assert_eq!(db.number(held).await, 0);
}
