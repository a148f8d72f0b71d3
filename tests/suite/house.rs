//! The floor plan of the runtime, read from its source files: rooms import downwards only, and
//! engines have names in one room.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms from top to bottom, each with the rooms it may import.
const ROOMS: [(&str, &[&str]); 12] = [
    (
        "testing",
        &[
            "engine", "service", "delivery", "operate", "registry", "handler", "event", "database",
            "config", "queue",
        ],
    ),
    (
        "engine",
        &[
            "service", "delivery", "operate", "registry", "handler", "event", "database", "config",
            "queue",
        ],
    ),
    (
        "service",
        &[
            "delivery", "operate", "registry", "handler", "event", "database", "config", "queue",
        ],
    ),
    (
        "delivery",
        &[
            "registry", "handler", "event", "database", "config", "queue", "sabotage",
        ],
    ),
    (
        "operate",
        &["handler", "event", "database", "config", "queue"],
    ),
    ("registry", &["handler", "event", "config", "queue"]),
    ("handler", &["event", "database", "config", "queue"]),
    ("event", &["database", "queue"]),
    ("database", &["config", "queue", "sabotage"]),
    ("config", &[]),
    ("queue", &[]),
    ("sabotage", &[]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../outbox-runtime/src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Each source file: its room, its path, and its code without comments and unit tests.
fn code() -> Vec<(String, String, String)> {
    let source = source();
    let mut found = Vec::new();
    files(&source, &mut found);
    assert!(found.len() > 100, "only {} files", found.len());
    let read = |path: &PathBuf| {
        let name = path
            .strip_prefix(&source)
            .expect("a source file")
            .display()
            .to_string();
        let room = name
            .split('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs")
            .to_owned();
        let text = fs::read_to_string(path).expect("a text");
        let text = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        let text = text.split("\n#[cfg(all(test").next().unwrap_or_default();
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        (room, name, lines.collect::<Vec<_>>().join("\n"))
    };
    found.iter().map(read).collect()
}

#[test]
fn rooms_import_downwards_only() {
    let mut wrong = Vec::new();
    for (room, name, text) in code() {
        if room == "lib" {
            continue;
        }
        let allowed = ROOMS.iter().find(|(known, _)| *known == room);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{name} is in no room"));
        for rest in text.split("crate::").skip(1) {
            let other: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if other != room && !allowed.contains(&&*other) {
                wrong.push(format!("{name} imports crate::{other}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows that go back:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn engines_have_names_in_the_database_room_only() {
    let mut named = Vec::new();
    for (room, name, text) in code() {
        if room == "database" {
            continue;
        }
        for line in text.lines().filter(|line| !line.contains("cfg(feature")) {
            let line = line.to_lowercase();
            for engine in [
                "dbbackend",
                "get_database_backend",
                "postgres",
                "mysql",
                "mariadb",
                "sqlite",
            ] {
                if line.contains(engine) {
                    named.push(format!("{name}: {}", line.trim()));
                }
            }
        }
    }
    assert!(
        named.is_empty(),
        "engines are named outside of database/:\n{}",
        named.join("\n")
    );
}

#[test]
fn every_engine_has_the_same_files() {
    let list = |engine: &str| {
        let folder = source().join("database").join(engine);
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("a name")
            })
            .filter(|name| name.ends_with(".rs"))
            .collect();
        names.sort_unstable();
        names
    };
    // Users' tests run on this engine alone.
    let mut sqlite = list("sqlite");
    sqlite.retain(|name| name != "temporary.rs");
    assert_eq!(list("mysql"), sqlite);
    // PostgreSQL writes in one statement where the others write by keys. Only its connections stay
    // with us from one statement to the next.
    sqlite.retain(|name| name != "by_keys.rs");
    let mut postgres = list("postgres");
    postgres.retain(|name| name != "connections.rs");
    assert_eq!(postgres, sqlite);
}

/// Statements are run in one place, so that only those that are listed can be.
#[test]
fn only_the_type_of_statements_runs_sql() {
    let mut wrong = Vec::new();
    for (_, name, text) in code() {
        // A transaction that a user holds passes the user's own statements on.
        if name.starts_with("database/statement/")
            || name == "database/connection_cache.rs"
            || name == "database/postgres/connections.rs"
            || name == "database/pass_on.rs"
        {
            continue;
        }
        for way in [
            "from_sql_and_values",
            "Statement::from_string",
            "execute_unprepared",
            "query_with(",
        ] {
            if text.contains(way) {
                wrong.push(format!("{name} uses {way}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_database_room_starts_no_tasks() {
    let mut wrong = Vec::new();
    for (room, name, text) in code() {
        if room == "database" && (text.contains("spawn(") || text.contains("spawn_blocking")) {
            wrong.push(name);
        }
    }
    assert_eq!(wrong, [""; 0]);
}
