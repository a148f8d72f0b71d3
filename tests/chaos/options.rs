//! The command line of a run.

use crate::nemesis::Fault;
use crate::process::parse_sabotage;
use outbox_tests::Engine;

pub(crate) const USAGE: &str = "\
usage: outbox-chaos [--engine postgres|mysql|sqlite] [--seconds N] [--seed N]
                    [--faults NAME,NAME..] [--shared-server] [--sabotage NAME] [--keep]

  --seconds N       how long things go wrong (60)
  --seed N          repeats the schedule of a run that printed it
  --faults A,B      only these: kill-worker, kill-producer, stop-worker, stop-producer,
                    restart-worker, crash-server, restart-server, end-sessions, cut,
                    half-close, delay, full-pool, full-server, lock-storm, long-transaction,
                    move-clock
  --shared-server   the server that OUTBOX_TEST_POSTGRES_URL or OUTBOX_TEST_MYSQL_URL names,
                    which is not restarted
  --keep            keeps journals and logs also if all went well
  --sabotage NAME   breaks the engine: ack-first, ignore-lease, skip-late

Exit code: 0 if every promise was kept, 1 if one was broken, 2 if there was no run.";

pub(crate) struct Options {
    pub(crate) engine: Engine,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) shared_server: bool,
    pub(crate) sabotage: Option<String>,
    pub(crate) keep: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            engine: Engine::Postgres,
            seconds: 60,
            seed: fastrand::u64(0..1_000_000),
            faults: Vec::new(),
            shared_server: false,
            sabotage: None,
            keep: false,
        };
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            match &**option {
                "--shared-server" => {
                    options.shared_server = true;
                    continue;
                }
                "--keep" => {
                    options.keep = true;
                    continue;
                }
                _ => {}
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{option} needs a value"))?;
            let wrong = || format!("{option} cannot be {value}");
            match &**option {
                "--engine" => options.engine = parse_engine(value).ok_or_else(wrong)?,
                "--seconds" => options.seconds = value.parse().map_err(|_| wrong())?,
                "--seed" => options.seed = value.parse().map_err(|_| wrong())?,
                "--faults" => {
                    let faults: Option<_> = value.split(',').map(Fault::parse).collect();
                    options.faults = faults.ok_or_else(wrong)?;
                }
                "--sabotage" => {
                    parse_sabotage(value).ok_or_else(wrong)?;
                    options.sabotage = Some(value.clone());
                }
                _ => return Err(format!("there is no {option}")),
            }
        }
        Ok(options)
    }
}

fn parse_engine(name: &str) -> Option<Engine> {
    match name {
        "postgres" => Some(Engine::Postgres),
        "mysql" => Some(Engine::MySql),
        "sqlite" => Some(Engine::Sqlite),
        _ => None,
    }
}
