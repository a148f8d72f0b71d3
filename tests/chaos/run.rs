//! One run: set the stage, let it rage, clean up, judge.

use crate::checker::{Verdict, judge};
use crate::crew::{Crew, FakeClock, Member};
use crate::member::{Orders, Role};
use crate::nemesis::{Ground, Schedule, rage};
use crate::options::Options;
use crate::proxy::Proxy;
use crate::tally::Tally;
use crate::{aftermath, history, worker, world};
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
/// Without any movement for so long, none is expected any more: of an engine that
/// works, and of one that is broken on purpose.
const STILL: Duration = Duration::from_secs(90);
const STILL_BROKEN: Duration = Duration::from_secs(3);
const REPORT_EVERY: Duration = Duration::from_secs(5);

pub(crate) fn run(options: &Options) -> ExitCode {
    let (engine, seconds, seed) = (options.engine, options.seconds, options.seed);
    println!("chaos: {engine:?}, {seconds} s, --seed {seed}");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let verdict = stage(options, directory.path());
    let Some((verdict, tally)) = verdict else {
        println!("chaos: interrupted");
        return ExitCode::from(2);
    };
    println!("{verdict}\nfaults: {tally}");
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
    let scene = Scene {
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
                let _ = tell.send(scene.play(db, None).await);
            })
        });
    } else {
        let server = PrivateServer::start(options.engine);
        let url = own_database(server.url());
        run_at(options.engine, &url, move |db| {
            Box::pin(async move {
                let _ = tell.send(scene.play(db, Some(&server)).await);
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

struct Scene {
    engine: Engine,
    seconds: u64,
    seed: u64,
    faults: Vec<crate::nemesis::Fault>,
    sabotage: Option<String>,
    directory: PathBuf,
}

impl Scene {
    /// None if it was interrupted.
    async fn play(self, db: &TestDb, server: Option<&PrivateServer>) -> Option<(Verdict, String)> {
        let mut interrupted = signal(SignalKind::interrupt()).expect("a signal handler");
        let mut terminated = signal(SignalKind::terminate()).expect("a signal handler");
        tokio::select! {
            played = self.play_to_the_end(db, server) => Some(played),
            _ = interrupted.recv() => None,
            _ = terminated.recv() => None,
        }
    }

    async fn play_to_the_end(
        &self,
        db: &TestDb,
        server: Option<&PrivateServer>,
    ) -> (Verdict, String) {
        world::create(db).await;
        let registered = worker::outbox(db.connection(), None).register().await;
        registered.expect("consumers that fit together");
        let (crew, tally) = (self.crew(db).await, Tally::default());
        let ground = Ground {
            crew: &crew,
            db,
            server,
            tally: &tally,
            at_server: tokio::sync::Mutex::default(),
        };
        let schedule = Schedule::new(self.seed, ground.possible(&self.faults));
        let left = tokio::select! {
            left = self.acts(&ground, schedule) => left,
            () = crew.keep_alive() => unreachable!("it never ends"),
            () = report(db, &tally) => unreachable!("it never ends"),
        };
        let history = history::read(db, &self.directory, left).await;
        let history = history.expect("a database that can be read");
        (judge(&history), tally.to_string())
    }

    /// Everything but the judgement. Returns what is left at the end.
    async fn acts(&self, ground: &Ground<'_>, schedule: Schedule) -> Vec<String> {
        let (crew, db) = (ground.crew, ground.db);
        rage(ground, schedule, Duration::from_secs(self.seconds)).await;
        println!("chaos: no more faults; waiting until everything is delivered");
        let mut stuck = crew.dismiss(Role::Producer, PATIENCE).await;
        stuck.extend(crew.dismiss(Role::Both, PATIENCE).await);
        crew.enlist(Role::Worker);
        let still = match self.sabotage {
            None => STILL,
            Some(_) => STILL_BROKEN,
        };
        let mut left = aftermath::drain(db, still).await;
        left.extend(aftermath::open_transactions(db).await);
        stuck.extend(crew.dismiss(Role::Worker, PATIENCE).await);
        left.extend(stuck.iter().map(|name| format!("{name} does not end")));
        left.extend(aftermath::leases_and_connections(db).await);
        left
    }

    async fn crew(&self, db: &TestDb) -> Crew {
        let mut members = Vec::new();
        if self.engine == Engine::Sqlite {
            // One process; and one that works when that one has ended.
            members.push(self.member("both".to_owned(), Role::Both, db, None).await);
            let relief = self
                .member("relief".to_owned(), Role::Worker, db, None)
                .await;
            members.push(relief.later());
        } else {
            for i in 0..PRODUCERS {
                let name = format!("producer-{i}");
                members.push(self.member(name, Role::Producer, db, None).await);
            }
            let mut clock = self.fake_clock();
            for i in 0..WORKERS {
                let name = format!("worker-{i}");
                members.push(self.member(name, Role::Worker, db, clock.take()).await);
            }
        }
        Crew::new(self.directory.clone(), members)
    }

    async fn member(
        &self,
        name: String,
        role: Role,
        db: &TestDb,
        clock: Option<FakeClock>,
    ) -> Member {
        let (mut url, mut proxy) = (db.url().to_owned(), None);
        if let Some(server) = address(db.url()) {
            let started = Proxy::start(server).await.expect("a proxy");
            url = url.replace(&server.to_string(), &started.address().to_string());
            proxy = Some(started);
        }
        let sabotage = self.sabotage.clone().filter(|_| role != Role::Producer);
        let orders = Orders {
            role,
            url,
            directory: self.directory.clone(),
            sabotage,
        };
        Member::new(name, orders, proxy, clock)
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

/// Says now and then how it goes.
async fn report(db: &TestDb, tally: &Tally) {
    let began = Instant::now();
    loop {
        tokio::time::sleep(REPORT_EVERY).await;
        // The server may be down; then there is nothing to say but that.
        let counts = tokio::time::timeout(Duration::from_secs(1), counts(db)).await;
        let counts = counts
            .ok()
            .flatten()
            .unwrap_or_else(|| "no answer from the database".into());
        println!("{:>4} s  {counts}; {tally}", began.elapsed().as_secs());
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
