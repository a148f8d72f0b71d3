//! One table per workload.

use crate::cases::OLD_TRANSACTION;
use crate::summary::summary;
use serde_json::Value;
use std::fmt::Write;

/// What the tables are, and how to get them again.
const HEADER: &str = "\
# Benchmarks

Us, the peers and the bare database, one after the other on one server in one run: read the
ratios, not the numbers. Messages are JSON of about 200 bytes under 1,000 keys; handlers do
nothing. Every run checks that everything arrived, in order per key and once; a contestant that
promises no order is marked. `raw` is the same rows with plain sqlx: the limit.

    scripts/bench --quick     # about ten minutes after the build
    scripts/bench             # everything, for hours

WAL, statements and rows written (inserted, updated, deleted) are per message, of a drain with
those of its filling. A drain of ours ends when its rows are deleted, one of the peers' when they
say that it is done; in the case \"from enqueue to the end\" the rows of ours, cf-modkit-db and
graphile_worker are gone at the end. Dead rows are what is left for PostgreSQL to clean up. MB is
the most memory the program had, the bench's own bookkeeping included; it is not known of several processes.
";

/// The result of a run, in one line.
pub fn line(result: &Value) -> String {
    if let Some(error) = result["error"].as_str() {
        return format!("FAILED: {error}");
    }
    let found = &result["measured"]["found"];
    let mut parts = Vec::new();
    if let Some(rate) = found["per_second"].as_f64() {
        parts.push(format!("{} /s", thousands(rate)));
    }
    if let Some(p50) = found["seen"]["p50_ms"].as_f64() {
        let p99 = found["seen"]["p99_ms"].as_f64().unwrap_or(0.0);
        parts.push(format!("p50 {p50:.1} ms, p99 {p99:.1} ms"));
    }
    parts.push(checked(result));
    parts.join("; ")
}

/// Whether everything arrived that was sent.
fn checked(result: &Value) -> String {
    let measured = &result["measured"];
    let found = &measured["found"];
    if found["seen"].is_null() {
        return String::new();
    }
    let number = |name: &str| found["seen"][name].as_u64().unwrap_or(0);
    let mut text = match found["complete"].as_bool() {
        Some(true) => "complete".to_owned(),
        _ => match found["behind_at_the_end"].as_u64() {
            Some(behind) => format!("INCOMPLETE, {behind} behind at the end"),
            None => "INCOMPLETE".to_owned(),
        },
    };
    if number("duplicates") > 0 {
        let _ = write!(text, ", {} twice", number("duplicates"));
    }
    match (measured["ordered"].as_bool(), number("out_of_order")) {
        (Some(true), 0) => text.push_str(", in order"),
        (Some(true), late) => {
            let _ = write!(text, ", {late} OUT OF ORDER");
        }
        _ => text.push_str(", unordered"),
    }
    text
}

/// Cases of ours that failed, or that lost or reordered something.
pub fn wrong(all: &Value) -> Vec<String> {
    let rows = all["results"].as_array().into_iter().flatten();
    rows.filter_map(|row| {
        let (id, name) = (row["id"].as_str()?, row["name"].as_str()?);
        let what = match row["result"]["error"].as_str() {
            Some(error) => error.to_owned(),
            None => checked(&row["result"]),
        };
        let fine = ["", "complete, in order"].contains(&&*what);
        (name.starts_with("outbox") && !fine).then(|| format!("{id} {name}: {what}"))
    })
    .collect()
}

/// The tables, with the charts drawn of them, and the one that sums them up.
pub fn markdown(all: &Value, charts: &[String]) -> (String, String) {
    let results = all["results"].as_array().cloned().unwrap_or_default();
    let machine = &all["machine"];
    let run = match all["resumed"].as_u64().unwrap_or(0) {
        0 => "one run".to_owned(),
        times => format!("a run resumed on a new server ({times} x)"),
    };
    let size = match (all["quick"] == true, all["only"].as_str()) {
        (true, None) => "quick".to_owned(),
        (false, None) => "in full".to_owned(),
        (true, Some(only)) => format!("quick, only `{only}`"),
        (false, Some(only)) => format!("only `{only}`"),
    };
    let said = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let mut text = format!(
        "{HEADER}\n{} cores ({}), PostgreSQL {} and MariaDB {} with default durability; {run}, \
         {size}, at commit {}. Built with {}.\n",
        machine["cores"],
        said(&machine["cpu"]),
        said(&machine["postgres"]),
        said(&machine["mariadb"]),
        said(&all["commit"]),
        said(&all["versions"]),
    );
    let summary = summary(&results);
    let _ = write!(text, "\n{summary}\n");
    for chart in charts {
        let _ = writeln!(text, "![{chart}](bench/charts/{chart}.svg)");
    }
    let mut seen = Vec::new();
    for result in &results {
        let id = result["id"].as_str().unwrap_or_default();
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let title = result["title"].as_str().unwrap_or_default();
        let _ = writeln!(text, "\n### {id}: {title}\n");
        text.push_str("| | messages/s | p50 ms | p99 ms | WAL B/msg | statements/msg | rows/msg | dead rows | sessions | MB | checked |\n");
        text.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
        for row in results.iter().filter(|row| row["id"] == id) {
            table_row(&mut text, row);
        }
    }
    let micro = std::env::var("BENCH_MICRO").unwrap_or_default();
    if !micro.is_empty() {
        let _ = write!(text, "\n### What a message costs in our own code\n\n");
        for line in micro.lines() {
            let _ = writeln!(text, "- {}", line.trim_start_matches("message/"));
        }
    }
    (text, summary)
}

fn table_row(text: &mut String, row: &Value) {
    let result = &row["result"];
    let name = row["name"].as_str().unwrap_or_default();
    if let Some(error) = result["error"].as_str() {
        let _ = writeln!(text, "| {name} | failed: {error} |");
        return;
    }
    let found = &result["measured"]["found"];
    let float = |value: &Value| value.as_f64().map_or("".into(), |n| format!("{n:.1}"));
    let whole = |value: &Value| value.as_f64().map_or("".into(), thousands);
    let settings = &result["measured"]["settings"];
    let cost = |name: &str| {
        let each = per_message(result, name);
        match (settings["workload"].as_str().unwrap_or_default(), name) {
            ("idle", "statements") => {
                let rate = result["statements_per_second"].as_f64();
                rate.map_or(String::new(), |rate| format!("{rate:.1} /s"))
            }
            ("idle", _) => String::new(),
            _ if name == "wal_bytes" => each.map_or(String::new(), |each| format!("{each:.0}")),
            _ => each.map_or(String::new(), |each| format!("{each:.2}")),
        }
    };
    let rate = found["per_second"]
        .as_f64()
        .map_or(String::new(), thousands);
    let _ = writeln!(
        text,
        "| {name} | {rate} | {} | {} | {} | {} | {} | {} | {} | {} | {}{} |",
        float(&found["seen"]["p50_ms"]),
        float(&found["seen"]["p99_ms"]),
        cost("wal_bytes"),
        cost("statements"),
        cost("rows"),
        whole(&result["dead_rows"]),
        whole(&result["sessions"]),
        whole(&result["measured"]["memory_mb"]),
        checked(result),
        match row["id"].as_str() {
            Some(OLD_TRANSACTION) => last_of_first(result).map_or(String::new(), |ratio| format!(
                ", at the end {ratio:.2} of the beginning"
            )),
            _ => String::new(),
        },
    );
}

/// What a message cost, its filling included, if the server counted that.
pub fn per_message(result: &Value, name: &str) -> Option<f64> {
    let filling = result["filling"][name].as_f64().unwrap_or(0.0);
    Some((result["cost"][name].as_f64()? + filling) / messages(result))
}

pub fn messages(result: &Value) -> f64 {
    let found = &result["measured"]["found"];
    let sent = found["sent"].as_f64();
    let count = result["measured"]["settings"]["count"].as_f64();
    sent.or(count).unwrap_or(1.0).max(1.0)
}

/// The last minute of a curve against the first; of a curve of less than six minutes, the last sixth
/// against the first.
pub fn last_of_first(result: &Value) -> Option<f64> {
    let curve = result["measured"]["found"]["curve"].as_array()?;
    if curve.is_empty() {
        return None;
    }
    let part = (curve.len() / 6).clamp(1, 60);
    let sum = |part: &[Value]| part.iter().filter_map(Value::as_f64).sum::<f64>();
    Some(sum(&curve[curve.len() - part..]) / sum(&curve[..part]).max(1.0))
}

pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(id: &str, name: &str, found: Value) -> Value {
        json!({ "id": id, "name": name, "result": { "measured": { "found": found } } })
    }

    fn rate(id: &str, name: &str, per_second: u32) -> Value {
        row(id, name, json!({ "per_second": per_second }))
    }

    #[test]
    fn a_curve_is_its_last_minute_against_its_first() {
        let minutes = [vec![4; 60], vec![9; 480], vec![3; 60]].concat();
        let of = |curve: Vec<i32>| {
            let row = row(OLD_TRANSACTION, "outbox", json!({ "curve": curve }));
            last_of_first(&row["result"])
        };
        assert_eq!(of(minutes), Some(0.75));
        assert_eq!(of(vec![2, 1]), Some(0.5));
        assert_eq!(of(Vec::new()), None);
    }

    #[test]
    fn what_is_wrong_is_said_aloud() {
        let of = |complete: bool, ordered: bool, twice: u32, late: u32| {
            let seen = json!({ "duplicates": twice, "out_of_order": late });
            let found = json!({ "seen": seen, "complete": complete });
            checked(&json!({ "measured": { "ordered": ordered, "found": found } }))
        };
        assert_eq!(of(true, true, 0, 0), "complete, in order");
        assert_eq!(of(false, true, 0, 2), "INCOMPLETE, 2 OUT OF ORDER");
        assert_eq!(of(true, false, 3, 2), "complete, 3 twice, unordered");
    }

    #[test]
    fn a_run_in_which_ours_is_wrong_is_none() {
        let found = |complete: bool| json!({ "seen": {}, "complete": complete });
        let failed = json!({ "id": "C", "name": "outbox", "result": { "error": "gone" } });
        let mut results = vec![
            rate("A", "outbox", 1),
            row("B", "outbox", found(true)),
            row("B", "outbox (low latency)", found(false)),
            row("B", "hexeract", found(false)),
            failed,
        ];
        for row in &mut results {
            row["result"]["measured"]["ordered"] = true.into();
        }
        assert_eq!(
            wrong(&json!({ "results": results })),
            [
                "B outbox (low latency): INCOMPLETE, in order",
                "C outbox: gone"
            ]
        );
    }
}
