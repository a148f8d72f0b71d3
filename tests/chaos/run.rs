//! One run: start server and processes, inject faults, let everything drain, check the history.

use crate::checker::{Verdict, judge};
use crate::fault_counts::FaultCounts;
use crate::nemesis::{Schedule, Target, inject_faults};
use crate::options::Options;
use crate::process::{Arguments, Role};
use crate::proxy::Proxy;
use crate::supervisor::{FakeClock, Process, Supervisor};
use crate::{history, leftovers, scenario, worker};
use outbox_tests::{Engine, PrivateServer, TestDb, run_at};
use sea_orm::{ConnectionTrait, Database};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

const PRODUCERS: usize = 2;
const WORKERS: usize = 3;
/// How long a process may take to end in order.
const PATIENCE: Duration = Duration::from_secs(120);
/// Without progress for so long, none is expected any more: of an engine that works, and of one
/// that is broken on purpose.
const NO_PROGRESS: Duration = Duration::from_secs(90);
const NO_PROGRESS_IF_BROKEN: Duration = Duration::from_secs(3);
const REPORT_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn run(options: &Options) -> ExitCode {
    let (engine, seconds, seed) = (options.engine, options.seconds, options.seed);
    println!("chaos: {engine:?}, {seconds} s, --seed {seed}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let verdict = stage(options, directory.path());
    let Some((verdict, fault_counts)) = verdict else {
        println!("chaos: interrupted");
        return ExitCode::from(2);
    };
    println!("{verdict}\nfaults: {fault_counts}");
    let (told, code) = match verdict.is_good() {
        true => ("every promise was kept", ExitCode::SUCCESS),
        false => ("promises were broken", ExitCode::FAILURE),
    };
    println!("chaos: {told} ({engine:?}, {seconds} s, --seed {seed})");
    if options.keep || (!verdict.is_good() && options.sabotage.is_none()) {
        println!("journals and logs: {}", directory.keep().display());
    }
    code
}

/// Runs on a server of its own, on one that is there, or on a file.
fn stage(options: &Options, directory: &Path) -> Option<(Verdict, String)> {
    let (tell, told) = mpsc::channel();
    let run = Run {
        engine: options.engine,
        seconds: options.seconds,
        seed: options.seed,
        faults: options.faults.clone(),
        sabotage: options.sabotage.clone(),
        directory: directory.to_owned(),
    };
    if options.engine == Engine::Sqlite || options.shared_server {
        outbox_tests::run(options.engine, true, move |db| {
            Box::pin(async move {
                let _ = tell.send(run.until_interrupted(db, None).await);
            })
        });
    } else {
        let server = PrivateServer::start(options.engine);
        let url = own_database(server.url());
        run_at(options.engine, &url, move |db| {
            Box::pin(async move {
                let _ = tell.send(run.until_interrupted(db, Some(&server)).await);
            })
        });
    }
    told.recv().ok().flatten()
}

/// A database of the run's own on its server.
fn own_database(server: &str) -> String {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let db = Database::connect(server)
            .await
            .expect("the run's own server");
        let created = db.execute_unprepared("CREATE DATABASE chaos").await;
        created.expect("a database");
        db.close().await.expect("close");
    });
    let (address, _) = server.rsplit_once('/').expect("a URL with a database");
    format!("{address}/chaos")
}

struct Run {
    engine: Engine,
    seconds: u64,
    seed: u64,
    faults: Vec<crate::nemesis::Fault>,
    sabotage: Option<String>,
    directory: PathBuf,
}

impl Run {
    /// None if it was interrupted.
    async fn until_interrupted(
        self,
        db: &TestDb,
        server: Option<&PrivateServer>,
    ) -> Option<(Verdict, String)> {
        let mut interrupted = signal(SignalKind::interrupt()).expect("a signal handler");
        let mut terminated = signal(SignalKind::terminate()).expect("a signal handler");
        tokio::select! {
            played = self.to_the_end(db, server) => Some(played),
            _ = interrupted.recv() => None,
            _ = terminated.recv() => None,
        }
    }

    async fn to_the_end(&self, db: &TestDb, server: Option<&PrivateServer>) -> (Verdict, String) {
        scenario::create(db).await;
        let registered = worker::outbox(db.connection(), None).register().await;
        registered.expect("consumers that fit together");
        let (supervisor, fault_counts) = (self.supervisor(db).await, FaultCounts::default());
        let target = Target {
            supervisor: &supervisor,
            db,
            server,
            fault_counts: &fault_counts,
            at_server: tokio::sync::Mutex::default(),
        };
        let schedule = Schedule::new(self.seed, target.possible(&self.faults));
        let left = tokio::select! {
            left = self.faults_and_drain(&target, schedule) => left,
            () = supervisor.keep_alive() => unreachable!("it never ends"),
            () = report(db, &fault_counts) => unreachable!("it never ends"),
        };
        let history = history::read(db, &self.directory, left).await;
        let history = history.expect("a database that can be read");
        (judge(&history), fault_counts.to_string())
    }

    /// Everything but the check. Returns what is left at the end.
    async fn faults_and_drain(&self, target: &Target<'_>, schedule: Schedule) -> Vec<String> {
        let (supervisor, db) = (target.supervisor, target.db);
        inject_faults(target, schedule, Duration::from_secs(self.seconds)).await;
        println!("chaos: no more faults; waiting until everything is delivered");
        let mut stuck = supervisor.stop_all(Role::Producer, PATIENCE).await;
        stuck.extend(supervisor.stop_all(Role::Both, PATIENCE).await);
        supervisor.start_all(Role::Worker);
        let still = match self.sabotage {
            None => NO_PROGRESS,
            Some(_) => NO_PROGRESS_IF_BROKEN,
        };
        let mut left = leftovers::drain(db, still).await;
        left.extend(leftovers::open_transactions(db).await);
        stuck.extend(supervisor.stop_all(Role::Worker, PATIENCE).await);
        left.extend(stuck.iter().map(|name| format!("{name} does not end")));
        left.extend(leftovers::leases_and_connections(db).await);
        left
    }

    async fn supervisor(&self, db: &TestDb) -> Supervisor {
        let mut processes = Vec::new();
        if self.engine == Engine::Sqlite {
            // One process; and one that works when that one has ended.
            processes.push(self.process("both".to_owned(), Role::Both, db, None).await);
            let relief = self
                .process("relief".to_owned(), Role::Worker, db, None)
                .await;
            processes.push(relief.later());
        } else {
            for i in 0..PRODUCERS {
                let name = format!("producer-{i}");
                processes.push(self.process(name, Role::Producer, db, None).await);
            }
            let mut clock = self.fake_clock();
            for i in 0..WORKERS {
                let name = format!("worker-{i}");
                processes.push(self.process(name, Role::Worker, db, clock.take()).await);
            }
        }
        Supervisor::new(self.directory.clone(), processes)
    }

    async fn process(
        &self,
        name: String,
        role: Role,
        db: &TestDb,
        clock: Option<FakeClock>,
    ) -> Process {
        let (mut url, mut proxy) = (db.url().to_owned(), None);
        if let Some(server) = address(db.url()) {
            let started = Proxy::start(server).await.expect("a proxy");
            url = url.replace(&server.to_string(), &started.address().to_string());
            proxy = Some(started);
        }
        let sabotage = self.sabotage.clone().filter(|_| role != Role::Producer);
        let arguments = Arguments {
            role,
            url,
            directory: self.directory.clone(),
            sabotage,
        };
        Process::new(name, arguments, proxy, clock)
    }

    fn fake_clock(&self) -> Option<FakeClock> {
        let library = FakeClock::find_library();
        if library.is_none() {
            println!("chaos: NO LIBFAKETIME, so no wall clock is moved; install `faketime`");
        }
        let offset = self.directory.join("clock");
        std::fs::write(&offset, "+0").expect("the clock's file");
        library.map(|library| FakeClock { library, offset })
    }
}

/// Where the server of a URL listens; none for a file.
fn address(url: &str) -> Option<SocketAddr> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let address = authority.rsplit('@').next()?;
    address.parse().ok()
}

/// Prints every few seconds how far the run is.
async fn report(db: &TestDb, fault_counts: &FaultCounts) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        // The server may be down; then there is nothing to say but that.
        let counts = tokio::time::timeout(Duration::from_secs(1), counts(db)).await;
        let counts = counts
            .ok()
            .flatten()
            .unwrap_or_else(|| "no answer from the database".into());
        println!(
            "{:>4} s  {counts}; {fault_counts}",
            began.elapsed().as_secs()
        );
    }
}

async fn counts(db: &TestDb) -> Option<String> {
    let conn = db.connection();
    let sql = "SELECT (SELECT COUNT(*) FROM chaos_event), (SELECT COUNT(*) FROM chaos_ledger), \
                  (SELECT COUNT(*) FROM outbox_body), (SELECT COUNT(*) FROM outbox_dead_letter)";
    let statement = sea_orm::Statement::from_string(conn.get_database_backend(), sql);
    let row = conn.query_one_raw(statement).await.ok()??;
    let number = |i: usize| row.try_get_by_index::<i64>(i).ok();
    let (committed, booked, kept, dead) = (number(0)?, number(1)?, number(2)?, number(3)?);
    Some(format!(
        "{committed} committed, {booked} in the ledger, {kept} on their way, {dead} dead"
    ))
}
