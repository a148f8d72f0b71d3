//! What is run: which contestant, which workload, how large.

/// One run of one contestant in a database of its own.
#[derive(Clone)]
pub struct Case {
    /// The workload's letter and size, the same for all contestants of a comparison.
    pub id: String,
    /// What it measures.
    pub title: &'static str,
    /// Whose program runs.
    pub program: &'static str,
    /// What the row is called: the program, and how it is set.
    pub name: String,
    /// What is done before, and not timed.
    pub fill: Vec<String>,
    /// What is timed.
    pub words: Vec<String>,
    /// Whether an old transaction is open meanwhile.
    pub pinned: bool,
    pub engine: Engine,
}

/// Where it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Postgres,
    MariaDb,
    Sqlite,
}

/// The ways each contestant is run.
const PEERS: &[(&str, &str)] = &[
    ("cf-modkit-db", "high_throughput"),
    ("cf-modkit-db", "low_latency"),
    ("graphile_worker", ""),
    ("hexeract", ""),
    ("awa", ""),
];

/// Every case there is; fewer and smaller ones if `quick`.
pub fn all(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    enqueue(&mut cases, quick);
    drain(&mut cases, quick);
    latency(&mut cases, quick);
    whole(&mut cases, quick);
    idle(&mut cases, quick);
    together(&mut cases, quick);
    other_engines(&mut cases, quick);
    growth(&mut cases, quick);
    pinned(&mut cases, quick);
    cases
}

fn case(id: &str, title: &'static str, program: &'static str, how: &str, words: &str) -> Case {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let name = match how {
        "" => program.to_owned(),
        how => format!("{program} ({})", how.replace('_', " ")),
    };
    Case {
        id: id.to_owned(),
        title,
        program,
        name,
        fill: Vec::new(),
        words,
        pinned: false,
        engine: Engine::Postgres,
    }
}

/// A peer's profile, as a word.
fn profile(how: &str) -> String {
    match how {
        "" | "Outbox::begin" => String::new(),
        how => format!("profile={how}"),
    }
}

fn enqueue(cases: &mut Vec<Case>, quick: bool) {
    let seconds = if quick { 5 } else { 10 };
    let sizes: &[(usize, usize)] = if quick {
        &[(16, 1), (8, 100)]
    } else {
        &[(1, 1), (8, 1), (16, 1), (8, 100)]
    };
    for (producers, each) in sizes {
        let id = format!("A {producers}x{each}");
        let words =
            format!("enqueue producers={producers} per_transaction={each} seconds={seconds}");
        let programs = [
            "raw",
            "outbox",
            "cf-modkit-db",
            "graphile_worker",
            "hexeract",
            "awa",
        ];
        for program in programs {
            cases.push(case(
                &id,
                "enqueue with a business row, messages/s",
                program,
                "",
                &words,
            ));
        }
    }
}

fn drain(cases: &mut Vec<Case>, quick: bool) {
    let count = if quick { 50_000 } else { 200_000 };
    let title = "drain a backlog to the last row, messages/s";
    let mut add = |program, how: &str, rest: &str, id: &str| {
        let words = format!("drain count={count} {rest} {}", profile(how));
        let mut case = case(id, title, program, how, &words);
        let partitions = rest
            .split_whitespace()
            .filter(|word| word.starts_with("partitions"));
        let partitions: String = partitions.collect();
        let fill = format!("fill count={count} per_transaction=100 producers=8 {partitions}");
        case.fill = fill.split_whitespace().map(str::to_owned).collect();
        cases.push(case);
    };
    for partitions in if quick { &[4][..] } else { &[4, 16] } {
        let id = format!("B {partitions}");
        let rest = format!("partitions={partitions}");
        add("raw", "", &rest, &id);
        add("outbox", "", &rest, &id);
        add("outbox", "high_throughput", &rest, &id);
        for (program, how) in PEERS {
            add(program, how, &rest, &id);
        }
        let id = format!("B {partitions} transactional");
        let rest = format!("{rest} mode=transactional");
        add("outbox", "", &rest, &id);
        add("outbox", "high_throughput", &rest, &id);
        add("cf-modkit-db", "high_throughput", &rest, &id);
    }
}

fn latency(cases: &mut Vec<Case>, quick: bool) {
    let seconds = if quick { 10 } else { 20 };
    let title = "commit to handler at 50/s, ms";
    let words = format!("latency rate=50 seconds={seconds} producers=1");
    let mut ours: Vec<(&str, &str, &str)> = vec![
        ("C here", "", ""),
        ("C here", "Outbox::begin", "wakes=yes"),
        ("C elsewhere", "", "elsewhere=yes"),
        ("C elsewhere, notified", "", "elsewhere=yes notify=yes"),
    ];
    if !quick {
        for how in ["low_latency", "high_throughput", "relaxed"] {
            ours.push(("C here", how, ""));
            ours.push(("C elsewhere", how, "elsewhere=yes"));
        }
    }
    for (id, how, rest) in ours {
        let words = format!("{words} {rest} {}", profile(how));
        cases.push(case(id, title, "outbox", how, &words));
    }
    for (program, how) in PEERS {
        let words = format!("{words} {}", profile(how));
        cases.push(case("C here", title, program, how, &words));
        if !quick {
            let words = format!("{words} elsewhere=yes");
            cases.push(case("C elsewhere", title, program, how, &words));
        }
    }
}

/// What a message costs from its enqueueing to its end.
fn whole(cases: &mut Vec<Case>, quick: bool) {
    let count = if quick { 20_000 } else { 100_000 };
    let title = "from enqueue to the end, what that writes";
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        if quick && ["hexeract", "awa"].contains(program) {
            continue;
        }
        let words = format!("whole count={count} per_transaction=100 {}", profile(how));
        cases.push(case("D whole", title, program, how, &words));
    }
}

fn idle(cases: &mut Vec<Case>, quick: bool) {
    // In full with what is done once a minute.
    let seconds = if quick { 20 } else { 70 };
    let title = "nothing to do, statements/s";
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        let partitions = if *program == "outbox" { 64 } else { 4 };
        let words = format!(
            "idle seconds={seconds} producers=1 partitions={partitions} {}",
            profile(how)
        );
        cases.push(case("D idle", title, program, how, &words));
    }
}

fn together(cases: &mut Vec<Case>, quick: bool) {
    let seconds = if quick { 10 } else { 30 };
    let title = "8 producers and the workers together, messages/s";
    let words = format!("together producers=8 seconds={seconds}");
    cases.push(case(
        "E",
        title,
        "raw",
        "no worker",
        &format!("enqueue producers=8 seconds={seconds}"),
    ));
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        let words = format!("{words} {}", profile(how));
        cases.push(case("E", title, program, how, &words));
    }
}

/// Ours where the peers do not go.
fn other_engines(cases: &mut Vec<Case>, quick: bool) {
    let (seconds, count) = if quick { (5, 10_000) } else { (15, 100_000) };
    for (engine, name, producers) in [
        (Engine::MariaDb, "MariaDB", 8),
        (Engine::Sqlite, "SQLite", 4),
    ] {
        let mut add = |what: &str, title: &'static str, how: &str, words: String| {
            let mut case = case(&format!("F {name} {what}"), title, "outbox", how, &words);
            case.engine = engine;
            if words.starts_with("drain") {
                let fill = format!("fill count={count} per_transaction=100 producers={producers}");
                case.fill = fill.split_whitespace().map(str::to_owned).collect();
            }
            cases.push(case);
        };
        let title = "enqueue with a business row, messages/s";
        for each in [1, 100] {
            let words =
                format!("enqueue producers={producers} per_transaction={each} seconds={seconds}");
            add(&format!("enqueue {producers}x{each}"), title, "", words);
        }
        let title = "drain a backlog to the last row, messages/s";
        for mode in ["leased", "transactional"] {
            let words = format!("drain count={count} mode={mode}");
            add("drain", title, mode, words);
        }
        let words = format!("latency rate=50 seconds={seconds} producers=1");
        add("latency", "commit to handler at 50/s, ms", "", words);
        let words = format!("together producers={producers} seconds={seconds}");
        add(
            "together",
            "producers and the workers together, messages/s",
            "",
            words,
        );
    }
}

fn growth(cases: &mut Vec<Case>, quick: bool) {
    let title = "drain as things grow, messages/s";
    let mut add = |id: String, fill: String, words: String| {
        let mut case = case(&id, title, "outbox", "", &words);
        case.fill = fill.split_whitespace().map(str::to_owned).collect();
        cases.push(case);
    };
    let backlogs: &[usize] = match quick {
        true => &[10_000, 200_000],
        false => &[10_000, 100_000, 1_000_000, 5_000_000],
    };
    for count in backlogs {
        let fill = format!("fill count={count} per_transaction=500 producers=8");
        add(
            format!("G backlog {count}"),
            fill,
            format!("drain count={count}"),
        );
    }
    for partitions in if quick { &[4, 64][..] } else { &[1, 4, 16, 64] } {
        let rest = format!("count=100000 partitions={partitions}");
        let fill = format!("fill {rest} per_transaction=100 producers=8");
        add(
            format!("G partitions {partitions}"),
            fill,
            format!("drain {rest}"),
        );
    }
    if quick {
        return;
    }
    for processes in [1, 2, 4] {
        let fill = "fill count=100000 per_transaction=100 producers=8".to_owned();
        let words = format!("drain count=100000 processes={processes}");
        add(format!("G processes {processes}"), fill, words);
    }
    for bytes in [200, 2_000, 32_000] {
        let rest = format!("count=20000 bytes={bytes}");
        let fill = format!("fill {rest} per_transaction=100 producers=8");
        add(format!("G payload {bytes}"), fill, format!("drain {rest}"));
    }
}

fn pinned(cases: &mut Vec<Case>, quick: bool) {
    let (seconds, title) = match quick {
        true => (
            60,
            "together while an old transaction is open; the end is ten seconds",
        ),
        false => (
            600,
            "together while an old transaction is open; the end is a minute",
        ),
    };
    let words = format!("together producers=8 seconds={seconds}");
    let peers: &[_] = if quick { &[] } else { PEERS };
    for (program, how) in [("outbox", "")].iter().chain(peers) {
        let words = format!("{words} {}", profile(how));
        let mut case = case("H", title, program, how, &words);
        case.pinned = true;
        cases.push(case);
    }
}
