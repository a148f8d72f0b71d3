//! Short runs on every engine, and runs of engines that are broken on purpose. One
//! at a time: each has several processes and most have a server.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs it; returns its exit code and what it said.
fn chaos(arguments: &[&str]) -> (Option<i32>, String) {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = Command::new(env!("CARGO_BIN_EXE_outbox-chaos"))
        .args(arguments)
        .output()
        .expect("the fault suite");
    let said = [run.stdout, run.stderr].concat();
    (
        run.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

mod a_short_run_breaks_no_promise {
    use super::*;

    /// Its schedule begins with kills, a stop, a cut and a crash of the server.
    const SEED: &str = "647";

    fn run(engine: &str) {
        let (code, said) = chaos(&["--engine", engine, "--seconds", "10", "--seed", SEED]);
        assert_eq!(code, Some(0), "{said}");
    }

    #[test]
    fn postgres() {
        run("postgres");
    }

    #[test]
    fn mysql() {
        run("mysql");
    }

    #[test]
    fn sqlite() {
        run("sqlite");
    }
}

/// A broken engine is caught, by the promise that it breaks. A short run has a few
/// chances to show the damage; where it shows none, another seed has.
fn caught(sabotage: &str, faults: &str, broken: &str) {
    let mut last = String::new();
    for seed in ["1", "2", "3"] {
        let (code, said) = chaos(&[
            "--shared-server",
            "--seconds",
            "5",
            "--seed",
            seed,
            "--faults",
            faults,
            "--sabotage",
            sabotage,
        ]);
        let found = format!("\n  {broken}: ");
        if code == Some(1) && said.contains(&found) {
            return;
        }
        last = said;
    }
    panic!("{sabotage} was not caught: {last}");
}

#[test]
fn an_engine_that_acknowledges_before_it_handles_is_caught() {
    caught("ack-first", "kill-worker", "lost");
}

#[test]
fn an_engine_that_ignores_the_lease_is_caught() {
    caught("ignore-lease", "stop-worker", "lease violations");
}

#[test]
fn an_engine_that_skips_late_commits_is_caught() {
    caught("skip-late", "kill-producer", "lost");
}
