//! The cases that are run: which contestant, which workload, how large.

/// One run of one contestant in a database of its own.
#[derive(Clone)]
pub struct Case {
    /// The workload and its size in words, the same for all contestants of a comparison.
    pub id: String,
    /// What it measures.
    pub title: &'static str,
    /// The contestant whose program runs.
    pub program: &'static str,
    /// The name of the row: the program, and its settings.
    pub name: String,
    /// The workload that runs first and is not timed.
    pub fill: Vec<String>,
    /// The workload that is timed.
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

/// Titles that are used in more than one place.
pub const LATENCY_HERE: &str = "latency in one process";
pub const LATENCY_ELSEWHERE: &str = "latency between processes";
pub const LATENCY_NOTIFIED: &str = "latency between processes, notified";
pub const WHOLE: &str = "from enqueue to the end";
pub const IDLE: &str = "idle";
pub const TOGETHER: &str = "producers and workers together";
pub const OLD_TRANSACTION: &str = "together, beside an old transaction";
/// A size follows these titles.
pub const BY_BACKLOG: &str = "drain by backlog, ";
pub const BY_PARTITIONS: &str = "drain by partitions, ";
pub const BY_PROCESSES: &str = "drain by processes, ";
pub const BY_PAYLOAD: &str = "drain by bytes of payload, ";

pub fn enqueue_by(producers: usize, each: usize) -> String {
    let producers = match producers {
        1 => "1 producer".to_owned(),
        many => format!("{many} producers"),
    };
    match each {
        1 => format!("enqueue, {producers}"),
        many => format!("enqueue, {producers}, {many} per transaction"),
    }
}

pub fn drain_of(partitions: usize, transactional: bool) -> String {
    let mode = if transactional { ", transactional" } else { "" };
    format!("drain, {partitions} partitions{mode}")
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
        let id = enqueue_by(*producers, *each);
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
                "each with a business row, messages/s",
                program,
                "",
                &words,
            ));
        }
    }
}

fn drain(cases: &mut Vec<Case>, quick: bool) {
    let count = if quick { 50_000 } else { 200_000 };
    let title = "a backlog, to the last row, messages/s";
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
        let id = drain_of(*partitions, false);
        let rest = format!("partitions={partitions}");
        add("raw", "", &rest, &id);
        add("outbox", "", &rest, &id);
        add("outbox", "high_throughput", &rest, &id);
        for (program, how) in PEERS {
            add(program, how, &rest, &id);
        }
        let id = drain_of(*partitions, true);
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
        (LATENCY_HERE, "", ""),
        (LATENCY_HERE, "Outbox::begin", "wakes=yes"),
        (LATENCY_ELSEWHERE, "", "elsewhere=yes"),
        (LATENCY_NOTIFIED, "", "elsewhere=yes notify=yes"),
    ];
    if !quick {
        for how in ["low_latency", "high_throughput", "relaxed"] {
            ours.push((LATENCY_HERE, how, ""));
            ours.push((LATENCY_ELSEWHERE, how, "elsewhere=yes"));
        }
    }
    for (id, how, rest) in ours {
        let words = format!("{words} {rest} {}", profile(how));
        cases.push(case(id, title, "outbox", how, &words));
    }
    for (program, how) in PEERS {
        let words = format!("{words} {}", profile(how));
        cases.push(case(LATENCY_HERE, title, program, how, &words));
        if !quick {
            let words = format!("{words} elsewhere=yes");
            cases.push(case(LATENCY_ELSEWHERE, title, program, how, &words));
        }
    }
}

/// What a message costs from its enqueueing to its end.
fn whole(cases: &mut Vec<Case>, quick: bool) {
    let count = if quick { 20_000 } else { 100_000 };
    let title = "what a message writes";
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        if quick && ["hexeract", "awa"].contains(program) {
            continue;
        }
        let words = format!("whole count={count} per_transaction=100 {}", profile(how));
        cases.push(case(WHOLE, title, program, how, &words));
    }
}

fn idle(cases: &mut Vec<Case>, quick: bool) {
    // Long enough to include what is done once a minute.
    let seconds = if quick { 20 } else { 70 };
    let title = "nothing to do, statements/s";
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        let partitions = if *program == "outbox" { 64 } else { 4 };
        let words = format!(
            "idle seconds={seconds} producers=1 partitions={partitions} {}",
            profile(how)
        );
        cases.push(case(IDLE, title, program, how, &words));
    }
}

fn together(cases: &mut Vec<Case>, quick: bool) {
    let seconds = if quick { 10 } else { 30 };
    let title = "8 producers, messages/s";
    let words = format!("together producers=8 seconds={seconds}");
    cases.push(case(
        TOGETHER,
        title,
        "raw",
        "no worker",
        &format!("enqueue producers=8 seconds={seconds}"),
    ));
    for (program, how) in [("outbox", "")].iter().chain(PEERS) {
        let words = format!("{words} {}", profile(how));
        cases.push(case(TOGETHER, title, program, how, &words));
    }
}

/// Ours on engines that the peers do not support.
fn other_engines(cases: &mut Vec<Case>, quick: bool) {
    let (seconds, count) = if quick { (5, 10_000) } else { (15, 100_000) };
    for (engine, name, producers) in [
        (Engine::MariaDb, "MariaDB", 8),
        (Engine::Sqlite, "SQLite", 4),
    ] {
        let mut add = |what: &str, title: &'static str, how: &str, words: String| {
            let mut case = case(&format!("{name}: {what}"), title, "outbox", how, &words);
            case.engine = engine;
            if words.starts_with("drain") {
                let fill = format!("fill count={count} per_transaction=100 producers={producers}");
                case.fill = fill.split_whitespace().map(str::to_owned).collect();
            }
            cases.push(case);
        };
        let title = "each with a business row, messages/s";
        for each in [1, 100] {
            let words =
                format!("enqueue producers={producers} per_transaction={each} seconds={seconds}");
            add(&enqueue_by(producers, each), title, "", words);
        }
        let title = "a backlog, to the last row, messages/s";
        for mode in ["leased", "transactional"] {
            let words = format!("drain count={count} mode={mode}");
            add("drain", title, mode, words);
        }
        let words = format!("latency rate=50 seconds={seconds} producers=1");
        add("latency", "commit to handler at 50/s, ms", "", words);
        let words = format!("together producers={producers} seconds={seconds}");
        add("together", "messages/s", "", words);
    }
}

fn growth(cases: &mut Vec<Case>, quick: bool) {
    let title = "messages/s";
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
            format!("{BY_BACKLOG}{count}"),
            fill,
            format!("drain count={count}"),
        );
    }
    for partitions in if quick { &[4, 64][..] } else { &[1, 4, 16, 64] } {
        let rest = format!("count=100000 partitions={partitions}");
        let fill = format!("fill {rest} per_transaction=100 producers=8");
        add(
            format!("{BY_PARTITIONS}{partitions}"),
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
        add(format!("{BY_PROCESSES}{processes}"), fill, words);
    }
    for bytes in [200, 2_000, 32_000] {
        let rest = format!("count=20000 bytes={bytes}");
        let fill = format!("fill {rest} per_transaction=100 producers=8");
        add(
            format!("{BY_PAYLOAD}{bytes}"),
            fill,
            format!("drain {rest}"),
        );
    }
}

fn pinned(cases: &mut Vec<Case>, quick: bool) {
    let (seconds, title) = match quick {
        true => (60, "messages/s; beginning and end are ten seconds"),
        false => (600, "messages/s; beginning and end are a minute"),
    };
    let words = format!("together producers=8 seconds={seconds}");
    let peers: &[_] = if quick { &[] } else { PEERS };
    for (program, how) in [("outbox", "")].iter().chain(peers) {
        let words = format!("{words} {}", profile(how));
        let mut case = case(OLD_TRANSACTION, title, program, how, &words);
        case.pinned = true;
        cases.push(case);
    }
}
