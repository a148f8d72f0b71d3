//! The fault suite: producers and workers as real processes on a real server, a nemesis that kills,
//! stops, cuts and crashes them, and a checker that compares what happened with what was promised.
//! `scripts/chaos` runs it.
//!
//! One binary: the run starts itself again as each of its processes (`process`).

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod checker;
mod fault_counts;
mod history;
mod journal;
mod lease_watch;
mod leftovers;
mod nemesis;
mod options;
mod process;
mod producer;
mod proxy;
mod run;
mod scenario;
mod supervisor;
mod worker;

use options::Options;
use process::{Arguments, Role};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .and_then(|name| Role::parse(name))
        .is_some()
    {
        return run_as_process(&arguments);
    }
    if arguments.iter().any(|argument| argument == "--help") {
        println!("{}", options::USAGE);
        return ExitCode::SUCCESS;
    }
    match Options::parse(&arguments) {
        Ok(options) => run::run(&options),
        Err(error) => {
            eprintln!("{error}\n{}", options::USAGE);
            ExitCode::from(2)
        }
    }
}

fn run_as_process(arguments: &[String]) -> ExitCode {
    let Some(arguments) = Arguments::parse(arguments) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(process::run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
