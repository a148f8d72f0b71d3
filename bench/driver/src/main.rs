//! Runs every contestant on one server, one at a time, and makes one table of the results.
//!
//! `bench-driver [--quick] [--resume] [--only TEXT] PROGRAM=PATH ...` with BENCH_URL naming
//! the server; `scripts/bench` calls it. With `--compare ROUNDS` the programs are `outbox` and
//! `before`, and the table is of these two.

mod cases;
mod charts;
mod compare;
mod elsewhere;
mod report;
mod server;
mod summary;

use cases::{Case, Engine};
use serde_json::{Map, Value, json};
use server::{Counts, Error, Server};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

struct Arguments {
    quick: bool,
    resume: bool,
    only: Option<String>,
    /// How many rounds of two programs, if two are to be compared.
    compare: Option<usize>,
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
    if let Some(rounds) = arguments.compare {
        return compare(&mut server, &arguments, cases, rounds).await;
    }
    let (began, total) = (Instant::now(), cases.len());
    let mut all = json!({
        "machine": machine(&mut server).await?,
        "commit": std::env::var("BENCH_COMMIT").ok(),
        "versions": std::env::var("BENCH_VERSIONS").ok(),
        "quick": arguments.quick,
        "only": arguments.only,
        "resumed": 0,
        "results": [],
    });
    let path = arguments.out.join("results.json");
    std::fs::create_dir_all(&arguments.out)?;
    let earlier = match arguments.resume {
        true => measured_before(&path, &mut all)?,
        false => Vec::new(),
    };
    let mut results = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let known = earlier
            .iter()
            .find(|row| row["id"] == case.id && row["name"] == *case.name);
        if let Some(known) = known {
            results.push(known.clone());
            continue;
        }
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
        // If a run of hours is interrupted, it can go on from here.
        all["results"] = results.clone().into();
        std::fs::write(&path, format!("{all:#}\n"))?;
    }
    all["results"] = results.into();
    std::fs::write(&path, format!("{all:#}\n"))?;
    let charts = charts::draw(&all, &arguments.out)?;
    let (markdown, summary) = report::markdown(&all, &charts);
    std::fs::write(arguments.out.join("results.md"), &markdown)?;
    println!("\n{markdown}");
    println!("{summary}");
    match report::wrong(&all) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(format!("outbox itself was wrong in {}", wrong.join("; ")).into()),
    }
}

/// Runs our cases with both programs in turn, for that many rounds.
async fn compare(
    server: &mut Server,
    arguments: &Arguments,
    cases: Vec<Case>,
    rounds: usize,
) -> Result<(), Error> {
    let ours = cases.into_iter().filter(|case| case.program == "outbox");
    let mut all: Vec<compare::Rounds> = ours
        .map(|case| compare::Rounds {
            case,
            before: Vec::new(),
            after: Vec::new(),
        })
        .collect();
    let (began, total) = (Instant::now(), all.len());
    for round in 0..rounds {
        for (index, of) in all.iter_mut().enumerate() {
            // The two take turns in being first.
            let mut turns = ["before", "outbox"];
            turns.rotate_left((round + index) % 2);
            for program in turns {
                let case = Case {
                    program,
                    ..of.case.clone()
                };
                let result = measure(server, arguments, &case).await?;
                println!(
                    "[round {}/{rounds}, {:>3}/{total}, {:>4} s] {} {}, {}: {}",
                    round + 1,
                    index + 1,
                    began.elapsed().as_secs(),
                    case.id,
                    case.name,
                    if program == "before" {
                        program
                    } else {
                        "after"
                    },
                    report::line(&result)
                );
                match program {
                    "before" => of.before.push(result),
                    _ => of.after.push(result),
                }
            }
        }
    }
    println!("\n{}", compare::table(&all));
    Ok(())
}

/// What an interrupted run of the same size, commit and machine has measured; what failed
/// is tried again. `now` says how often that was.
fn measured_before(path: &Path, now: &mut Value) -> Result<Vec<Value>, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("nothing to resume in {}: {error}", path.display()))?;
    let before: Value = serde_json::from_str(&text)?;
    for what in ["machine", "commit", "versions", "quick"] {
        if before[what] != now[what] {
            return Err(format!("{} is of another run: its {what} differs", path.display()).into());
        }
    }
    now["resumed"] = (before["resumed"].as_u64().unwrap_or(0) + 1).into();
    let rows = before["results"].as_array().into_iter().flatten();
    Ok(rows
        .filter(|row| row["result"]["error"].is_null())
        .cloned()
        .collect())
}

fn arguments() -> Result<Arguments, Error> {
    let mut arguments = Arguments {
        quick: false,
        resume: false,
        only: None,
        compare: None,
        programs: HashMap::new(),
        out: PathBuf::from("results"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (&*word, word.split_once('=')) {
            ("--quick", _) => arguments.quick = true,
            ("--resume", _) => arguments.resume = true,
            ("--only", _) => arguments.only = Some(words.next().ok_or("--only what?")?),
            ("--compare", _) => {
                let rounds = words.next().ok_or("--compare how many rounds?")?;
                arguments.compare = Some(rounds.parse()?);
            }
            ("--out", _) => arguments.out = words.next().ok_or("--out where?")?.into(),
            (_, Some((program, path))) => {
                arguments.programs.insert(program.to_owned(), path.into());
            }
            _ => return Err(format!("`{word}` is not understood").into()),
        }
    }
    Ok(arguments)
}

/// Runs a case on an engine whose server counts nothing for us.
async fn measure_elsewhere(
    server: &mut Server,
    program: &PathBuf,
    case: &Case,
) -> Result<Value, Error> {
    let name = "bench_run";
    let (url, directory) = match case.engine {
        Engine::MariaDb => (elsewhere::mariadb(name).await?, None),
        _ => {
            let (url, directory) = elsewhere::sqlite(name)?;
            (url, Some(directory))
        }
    };
    if !case.fill.is_empty() {
        run(server, program, name, &url, &case.fill).await?;
    }
    let ran = run(server, program, name, &url, &case.words).await?;
    if let Some(directory) = directory {
        std::fs::remove_dir_all(directory)?;
    }
    Ok(json!({ "measured": ran.printed }))
}

/// Runs a case in a database of its own.
async fn measure(server: &mut Server, arguments: &Arguments, case: &Case) -> Result<Value, Error> {
    let program = arguments.programs.get(case.program);
    let program = program.ok_or_else(|| format!("no program `{}`", case.program))?;
    if case.engine != Engine::Postgres {
        return measure_elsewhere(server, program, case).await;
    }
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
    let ran = run(server, program, name, &url, &case.words).await?;
    let after = server.counts(name).await?;
    found.insert("cost".into(), after.since(&before));
    found.insert("sessions".into(), ran.sessions.into());
    if let Some(rate) = ran.statements_per_second {
        found.insert("statements_per_second".into(), rate.into());
    }
    found.insert("dead_rows".into(), server.dead_rows(&url).await?.into());
    drop(old);
    server.drop(name).await?;
    found.insert("measured".into(), ran.printed);
    Ok(Value::Object(found))
}

/// The result of a program.
struct Ran {
    printed: Value,
    /// The most sessions it had at once.
    sessions: i64,
    /// From [`SETTLED`] after its start to a second before its end.
    statements_per_second: Option<f64>,
}

/// A program that has not ended by then hangs. The longest takes a third of this time.
const LONGEST: Duration = Duration::from_secs(40 * 60);

/// After this time a program has finished what its start needs.
const SETTLED: Duration = Duration::from_secs(3);

/// Runs a program to its end.
async fn run(
    server: &mut Server,
    program: &PathBuf,
    name: &str,
    url: &str,
    words: &[String],
) -> Result<Ran, Error> {
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
    let began = Instant::now();
    let mut counts: Vec<(Instant, Counts)> = Vec::new();
    let output = loop {
        tokio::select! {
            output = &mut output => break output?,
            () = tokio::time::sleep_until((began + LONGEST).into()) => {
                return Err(format!("{} {words:?} did not end", program.display()).into());
            }
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                sessions = sessions.max(server.sessions(name).await?);
                // A case on another engine has no database here.
                if sessions > 0 && began.elapsed() > SETTLED {
                    counts.push((Instant::now(), server.counts(name).await?));
                }
            }
        }
    };
    let last = counts
        .iter()
        .rfind(|(at, _)| at.elapsed() > Duration::from_secs(1));
    let statements_per_second = counts.first().zip(last).and_then(|(first, last)| {
        let seconds = (last.0 - first.0).as_secs_f64();
        let made = last.1.statements - first.1.statements;
        (seconds > 1.0).then(|| made as f64 / seconds)
    });
    if !output.status.success() {
        return Err(format!("{} {words:?}: {}", program.display(), output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().ok_or("it printed nothing")?;
    Ok(Ran {
        printed: serde_json::from_str(line)?,
        sessions,
        statements_per_second,
    })
}

async fn machine(server: &mut Server) -> Result<Value, Error> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or("").trim_start_matches([' ', '\t', ':']);
    Ok(json!({
        "cores": std::thread::available_parallelism()?.get(),
        "cpu": model,
        "postgres": server.version().await?,
        "mariadb": elsewhere::version().await?,
    }))
}
