//! Runs every contestant on one server, one at a time, and makes one table of it.
//!
//! `bench-driver [--quick] [--only TEXT] PROGRAM=PATH ...` with BENCH_URL naming the
//! server; `scripts/bench` calls it.

mod cases;
mod charts;
mod report;
mod server;

use cases::Case;
use serde_json::{Map, Value, json};
use server::{Error, Server};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

struct Arguments {
    quick: bool,
    only: Option<String>,
    programs: HashMap<String, PathBuf>,
    out: PathBuf,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments = arguments()?;
    let url = std::env::var("BENCH_URL").map_err(|_| "BENCH_URL names no server")?;
    let mut server = Server::connect(&url).await?;
    let wanted = |case: &Case| {
        let text = format!("{} {}", case.id, case.name);
        arguments
            .only
            .as_ref()
            .is_none_or(|only| text.contains(only))
    };
    let cases: Vec<Case> = cases::all(arguments.quick)
        .into_iter()
        .filter(wanted)
        .collect();
    let (began, total) = (Instant::now(), cases.len());
    let mut results = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let elapsed = began.elapsed().as_secs();
        println!(
            "[{:>3}/{total} {elapsed:>4} s] {} {}",
            index + 1,
            case.id,
            case.name
        );
        let found = match measure(&mut server, &arguments, case).await {
            Ok(found) => found,
            Err(error) => json!({ "error": error.to_string() }),
        };
        println!("               {}", report::line(&found));
        results.push(json!({
            "id": case.id, "title": case.title, "name": case.name, "result": found,
        }));
    }
    let machine = machine(&mut server).await?;
    let all = json!({ "machine": machine, "quick": arguments.quick, "results": results });
    std::fs::create_dir_all(&arguments.out)?;
    std::fs::write(arguments.out.join("results.json"), format!("{all:#}\n"))?;
    charts::draw(&all, &arguments.out)?;
    let (markdown, summary) = report::markdown(&all);
    std::fs::write(arguments.out.join("results.md"), &markdown)?;
    println!("\n{markdown}");
    println!("{summary}");
    Ok(())
}

fn arguments() -> Result<Arguments, Error> {
    let mut arguments = Arguments {
        quick: false,
        only: None,
        programs: HashMap::new(),
        out: PathBuf::from("results"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (&*word, word.split_once('=')) {
            ("--quick", _) => arguments.quick = true,
            ("--only", _) => arguments.only = Some(words.next().ok_or("--only what?")?),
            ("--out", _) => arguments.out = words.next().ok_or("--out where?")?.into(),
            (_, Some((program, path))) => {
                arguments.programs.insert(program.to_owned(), path.into());
            }
            _ => return Err(format!("`{word}` is not understood").into()),
        }
    }
    Ok(arguments)
}

/// Runs a case in a database of its own.
async fn measure(server: &mut Server, arguments: &Arguments, case: &Case) -> Result<Value, Error> {
    let program = arguments.programs.get(case.program);
    let program = program.ok_or_else(|| format!("no program `{}`", case.program))?;
    let name = "bench_run";
    let url = server.create(name).await?;
    let start = server.counts(name).await?;
    let mut found = Map::new();
    if !case.fill.is_empty() {
        run(server, program, name, &url, &case.fill).await?;
        let filled = server.counts(name).await?;
        found.insert("filling".into(), filled.since(&start));
        server.settle(&url).await?;
    }
    let old = match case.pinned {
        true => Some(server.pin(&url).await?),
        false => None,
    };
    let before = server.counts(name).await?;
    let (measured, sessions) = run(server, program, name, &url, &case.words).await?;
    let after = server.counts(name).await?;
    found.insert("cost".into(), after.since(&before));
    found.insert("sessions".into(), sessions.into());
    found.insert("dead_rows".into(), server.dead_rows(&url).await?.into());
    drop(old);
    server.drop(name).await?;
    found.insert("measured".into(), measured);
    Ok(Value::Object(found))
}

/// Runs a program to its end; returns what it printed and the most sessions it had.
async fn run(
    server: &mut Server,
    program: &PathBuf,
    name: &str,
    url: &str,
    words: &[String],
) -> Result<(Value, i64), Error> {
    let child = Command::new(program)
        .args(words)
        .env("BENCH_URL", url)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.wait_with_output();
    tokio::pin!(output);
    let mut sessions = 0;
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                sessions = sessions.max(server.sessions(name).await?);
            }
        }
    };
    if !output.status.success() {
        return Err(format!("{} {words:?}: {}", program.display(), output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().ok_or("it printed nothing")?;
    Ok((serde_json::from_str(line)?, sessions))
}

async fn machine(server: &mut Server) -> Result<Value, Error> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or("").trim_start_matches([' ', '\t', ':']);
    Ok(json!({
        "cores": std::thread::available_parallelism()?.get(),
        "cpu": model,
        "postgres": server.version().await?,
    }))
}
