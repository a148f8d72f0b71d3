//! Takes the first `rust` block out of the README, so that it is compiled and run exactly as it
//! stands there.

use std::path::PathBuf;
use std::{env, fs};

const BEGIN: &str = "```rust\n";
const END: &str = "\n```";

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo says where this crate is");
    let out = env::var("OUT_DIR").expect("cargo says where to write");
    let readme = PathBuf::from(here).join("../../README.md");
    println!("cargo::rerun-if-changed={}", readme.display());
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(&readme).expect("README.md");
    let Some(program) = first_program(&text) else {
        println!(
            "cargo::error=README.md has no block that begins with ```rust: its program is what this crate tests"
        );
        return;
    };
    fs::write(PathBuf::from(out).join("program.rs"), program).expect("program.rs");
}

fn first_program(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(BEGIN)?;
    let (program, _) = rest.split_once(END)?;
    Some(program)
}
