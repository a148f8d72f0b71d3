//! How many instructions our own code takes for a message, counted by callgrind.

use crate::figures::Table;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_outbox-test-instructions");
const TIMES: u32 = 200;

pub(crate) fn count() -> Table {
    let version = Command::new("rustc").arg("--version").output();
    let version = String::from_utf8_lossy(&version.expect("rustc").stdout).into_owned();
    let version = version.split_whitespace().nth(1).expect("a version");
    let heading = format!("Our own code, unoptimised (rustc {version})");
    let mut table = Table::new(heading, &["instructions"]);
    for step in ["encode", "hash key", "dispatch", "dispatch and decode"] {
        table.add(step, &[0.0], &[instructions(step)], f64::from(TIMES));
    }
    table
}

fn instructions(step: &str) -> f64 {
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=outbox_test_instructions::measured*")
        .args([PROGRAM, step, &TIMES.to_string()])
        .output()
        .expect("valgrind, which scripts/test installs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let collected = said.split("Collected : ").nth(1).expect(&said);
    let collected = collected.split_whitespace().next().expect("a number");
    collected.parse().expect("a number")
}
