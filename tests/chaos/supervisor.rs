//! The processes of a run: started, killed, and started again.

use crate::process::{Arguments, Role};
use crate::proxy::Proxy;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A process that is started again whenever it ends.
pub(crate) struct Process {
    name: String,
    arguments: Arguments,
    /// What its connections go through; none on SQLite.
    pub(crate) proxy: Option<Proxy>,
    clock: Option<FakeClock>,
    /// Whether it is to be started again.
    wanted: AtomicBool,
    child: Mutex<Option<Child>>,
}

/// A wall clock that the nemesis moves; the monotonic clock is left alone.
#[derive(Clone)]
pub(crate) struct FakeClock {
    pub(crate) library: PathBuf,
    /// Holds by how much the clock is moved, such as `+3h`.
    pub(crate) offset: PathBuf,
}

impl FakeClock {
    /// The library that fakes it, if it is installed.
    pub(crate) fn find_library() -> Option<PathBuf> {
        let directories = std::fs::read_dir("/usr/lib").ok()?.flatten();
        let name = Path::new("faketime/libfaketimeMT.so.1");
        let found = directories.map(|directory| directory.path().join(name));
        found.into_iter().find(|library| library.exists())
    }
}

impl Process {
    pub(crate) fn new(
        name: String,
        arguments: Arguments,
        proxy: Option<Proxy>,
        clock: Option<FakeClock>,
    ) -> Self {
        Self {
            name,
            arguments,
            proxy,
            clock,
            wanted: AtomicBool::new(true),
            child: Mutex::default(),
        }
    }

    /// Not started until the supervisor is told to.
    pub(crate) fn later(self) -> Self {
        self.wanted.store(false, Ordering::Release);
        self
    }

    pub(crate) fn role(&self) -> Role {
        self.arguments.role
    }

    pub(crate) fn clock(&self) -> Option<&FakeClock> {
        self.clock.as_ref()
    }

    /// Sends a signal; false if no process is running.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        let child = self.lock();
        let pid = child
            .as_ref()
            .and_then(|child| i32::try_from(child.id()).ok());
        // It is ours until a thread has waited for it, which takes the same lock.
        let sent = pid
            .and_then(Pid::from_raw)
            .map(|pid| kill_process(pid, signal));
        sent.is_some_and(|sent| sent.is_ok())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it if it has ended, or never began.
    fn revive(&self, directory: &Path) -> Result<()> {
        let mut child = self.lock();
        if let Some(running) = child.as_mut() {
            if running.try_wait()?.is_none() {
                return Ok(());
            }
            *child = None;
        }
        if !self.wanted.load(Ordering::Acquire) {
            return Ok(());
        }
        let path = directory.join(format!("{}.log", self.name));
        let log = File::options().append(true).create(true).open(path)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(self.arguments.to_arguments())
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log);
        if let Some(clock) = &self.clock {
            command
                .env("LD_PRELOAD", &clock.library)
                .env("FAKETIME_TIMESTAMP_FILE", &clock.offset)
                .env("FAKETIME_NO_CACHE", "1")
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        *child = Some(command.spawn()?);
        Ok(())
    }

    fn is_running(&self) -> bool {
        let mut child = self.lock();
        child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

/// All processes. They are killed with it.
pub(crate) struct Supervisor {
    directory: PathBuf,
    pub(crate) processes: Vec<Process>,
}

impl Supervisor {
    pub(crate) fn new(directory: PathBuf, processes: Vec<Process>) -> Self {
        Self {
            directory,
            processes,
        }
    }

    /// Those that produce, or those that work.
    pub(crate) fn of(&self, role: Role) -> Vec<&Process> {
        let process = |process: &&Process| process.role() == role || process.role() == Role::Both;
        self.processes.iter().filter(process).collect()
    }

    /// Starts again, without end, every process that ended.
    pub(crate) async fn keep_alive(&self) {
        loop {
            for process in &self.processes {
                process.revive(&self.directory).expect("a process");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Starts those of a role that wait for it.
    pub(crate) fn start_all(&self, role: Role) {
        for process in self
            .processes
            .iter()
            .filter(|process| process.role() == role)
        {
            process.wanted.store(true, Ordering::Release);
        }
    }

    /// Stops the processes of a role in order. Returns those that did not end in time.
    pub(crate) async fn stop_all(&self, role: Role, patience: Duration) -> Vec<String> {
        let processes: Vec<&Process> = self.processes.iter().filter(|m| m.role() == role).collect();
        for process in &processes {
            process.wanted.store(false, Ordering::Release);
            process.signal(Signal::TERM);
        }
        let deadline = Instant::now() + patience;
        while processes.iter().any(|process| process.is_running()) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let stuck = processes.iter().filter(|process| process.is_running());
        stuck.map(|process| process.name.clone()).collect()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        for process in &self.processes {
            if let Some(mut child) = process.lock().take() {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
