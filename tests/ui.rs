//! What the macros accept, and what they say about what they do not.
//!
//! The expected messages are rustc's in part, so they are for one version of it,
//! the one in `ui/RUSTC`.

use std::process::Command;
use std::{env, fs};

const RUSTC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ui/RUSTC");

#[test]
fn good_events_and_handlers_compile_and_work() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/event/pass/*.rs");
    cases.pass("ui/handler/pass/*.rs");
}

#[test]
fn every_mistake_is_explained_where_it_is() {
    let expected = fs::read_to_string(RUSTC).expect("ui/RUSTC can be read");
    let (expected, found) = (expected.trim(), rustc_version());
    if env::var_os("TRYBUILD").is_some_and(|mode| mode == "overwrite") {
        fs::write(RUSTC, format!("{found}\n")).expect("ui/RUSTC can be written");
    } else {
        assert!(
            expected == found,
            "the messages in tests/ui are those of rustc {expected}, and this is rustc {found}. \
             Test with {expected}; or run `TRYBUILD=overwrite cargo test -p outbox-tests --test ui`, \
             read what changed, and commit it."
        );
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/event/fail/*.rs");
    cases.compile_fail("ui/handler/fail/*.rs");
}

/// The version of the compiler, without the patch level: "1.95".
fn rustc_version() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let text = String::from_utf8(output.expect("rustc runs").stdout).expect("UTF-8");
    // rustc 1.95.0 (59807616e 2026-04-14)
    let version = text.split_whitespace().nth(1).unwrap_or_default();
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}
