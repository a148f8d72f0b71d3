//! A real process that runs an outbox, and the table in which it writes what it is given.

use super::super::*;
use outbox_tests::Engine;
use std::process::{Child, Command, Stdio};

/// A worker process; it ends with the test whatever happens to the test.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn spawn(db: &TestDb) -> Self {
        Self::with(db, &["2000"])
    }

    /// With the pace, and what else the worker is told.
    pub(crate) fn with(db: &TestDb, arguments: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_outbox-test-worker"))
            .args([db.url(), "orders", "4"])
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the worker");
        Self(child)
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Whether it has died.
    pub(crate) fn is_dead(&mut self) -> bool {
        self.0.try_wait().expect("wait").is_some()
    }

    /// The most memory it ever had, in bytes, as Linux knows it.
    pub(crate) fn peak_memory(&self) -> usize {
        let path = format!("/proc/{}/status", self.0.id());
        let status = std::fs::read_to_string(path).expect("its status");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: usize = peak
            .and_then(|peak| peak.trim().strip_suffix(" kB")?.parse().ok())
            .expect("a peak in kB");
        kib * 1024
    }

    /// SIGKILL: it can say nothing before it ends.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }

    /// An orderly end.
    pub(crate) async fn stop(&mut self) {
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
pub(crate) async fn create_delivery(db: &TestDb) {
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

pub(crate) async fn deliveries(db: &TestDb, condition: &str) -> i64 {
    db.number(&format!(
        "SELECT COUNT(DISTINCT note) FROM delivery WHERE {condition}"
    ))
    .await
}
