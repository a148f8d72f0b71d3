//! The fault suite: producers and workers as real processes on a real server, a
//! nemesis that kills, stops, cuts and crashes them, and a checker of what came of it.
//! `scripts/chaos` runs it.
//!
//! One binary: the run starts itself again as each of its processes (`member`).

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod aftermath;
mod checker;
mod crew;
mod history;
mod journal;
mod lease_watch;
mod member;
mod nemesis;
mod options;
mod producer;
mod proxy;
mod run;
mod tally;
mod worker;
mod world;

use member::{Orders, Role};
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .first()
        .and_then(|name| Role::parse(name))
        .is_some()
    {
        return be_a_member(&arguments);
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

fn be_a_member(arguments: &[String]) -> ExitCode {
    let Some(orders) = Orders::parse(arguments) else {
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime");
    match runtime.block_on(member::run(orders)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
