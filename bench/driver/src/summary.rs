//! A run in one table, for readers who want the answer first.

use crate::cases::{
    BY_BACKLOG, BY_PARTITIONS, IDLE, LATENCY_ELSEWHERE, LATENCY_HERE, LATENCY_NOTIFIED,
    OLD_TRANSACTION, TOGETHER, WHOLE, drain_of, enqueue_by,
};
use crate::report::{last_of_first, messages, thousands};
use serde_json::Value;
use std::fmt::Write;

/// One line of the summary: the question, the case that measured it, and the figure that answers it.
struct Question {
    text: &'static str,
    id: String,
    figure: Figure,
}

/// A figure of a result.
#[derive(Clone, Copy)]
enum Figure {
    Rate,
    P50,
    P99,
    WalPerMessage,
    IdleStatements,
    LastOfFirst,
}

impl Figure {
    fn of(self, result: &Value) -> Option<f64> {
        let found = &result["measured"]["found"];
        match self {
            Self::Rate => found["per_second"].as_f64(),
            Self::P50 => found["seen"]["p50_ms"].as_f64(),
            Self::P99 => found["seen"]["p99_ms"].as_f64(),
            Self::WalPerMessage => Some(result["cost"]["wal_bytes"].as_f64()? / messages(result)),
            Self::IdleStatements => result["statements_per_second"].as_f64(),
            Self::LastOfFirst => last_of_first(result),
        }
    }

    fn more_is_better(self) -> bool {
        matches!(self, Self::Rate | Self::LastOfFirst)
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Rate => format!("{}/s", thousands(value)),
            Self::P50 | Self::P99 => format!("{value:.1} ms"),
            Self::WalPerMessage => format!("{} B", thousands(value)),
            Self::IdleStatements => format!("{value:.1}/s"),
            Self::LastOfFirst => format!("{value:.2}"),
        }
    }
}

fn questions() -> Vec<Question> {
    let of = |text, id: &str, figure| Question {
        text,
        id: id.to_owned(),
        figure,
    };
    vec![
        of(
            "Messages enqueued, each in a transaction with a business row, 16 producers",
            &enqueue_by(16, 1),
            Figure::Rate,
        ),
        of(
            "The same, 100 in a transaction, 8 producers",
            &enqueue_by(8, 100),
            Figure::Rate,
        ),
        of(
            "Messages of a backlog handled and cleaned up, leased",
            &drain_of(4, false),
            Figure::Rate,
        ),
        of(
            "The same in transactions, exactly once",
            &drain_of(4, true),
            Figure::Rate,
        ),
        of(
            "From commit to handler in one process, median",
            LATENCY_HERE,
            Figure::P50,
        ),
        of("The same, 99 of 100 within", LATENCY_HERE, Figure::P99),
        of(
            "From commit to handler in another process, median",
            LATENCY_ELSEWHERE,
            Figure::P50,
        ),
        of("The same with `.notify()`", LATENCY_NOTIFIED, Figure::P50),
        of("Producers and workers at once", TOGETHER, Figure::Rate),
        of("Commit to handler then, median", TOGETHER, Figure::P50),
        of(
            "WAL of a message, from enqueue to its end",
            WHOLE,
            Figure::WalPerMessage,
        ),
        of(
            "Statements of an idle process",
            IDLE,
            Figure::IdleStatements,
        ),
        of(
            "Messages of a backlog of 5 million handled and cleaned up",
            &format!("{BY_BACKLOG}5000000"),
            Figure::Rate,
        ),
        of(
            "The same with 64 partitions and 100,000 messages",
            &format!("{BY_PARTITIONS}64"),
            Figure::Rate,
        ),
        of(
            "What is left of the rate beside a forgotten open transaction",
            OLD_TRANSACTION,
            Figure::LastOfFirst,
        ),
    ]
}

/// The run in one table: ours at its best, the bare database, the best of the peers.
pub fn summary(results: &[Value]) -> String {
    let best = |question: &Question, wanted: &dyn Fn(&str) -> bool| {
        let rows = results.iter().filter(|row| row["id"] == *question.id);
        let named = rows.filter_map(|row| {
            let name = row["name"].as_str()?;
            let value = question.figure.of(&row["result"])?;
            wanted(name).then_some((row, value))
        });
        let by_value = |a: &(&Value, f64), b: &(&Value, f64)| a.1.total_cmp(&b.1);
        match question.figure.more_is_better() {
            true => named.max_by(by_value),
            false => named.min_by(by_value),
        }
    };
    let ours = |name: &str| name.starts_with("outbox");
    let raw = |name: &str| name.starts_with("raw");
    let peers = |name: &str| !ours(name) && !raw(name);
    let mut text = String::from(
        "| | outbox | plain SQL | best peer | outbox / best peer |\n|---|---|---|---|---|\n",
    );
    for question in questions() {
        let Some((row, value)) = best(&question, &ours) else {
            continue;
        };
        let shown = |value: f64| question.figure.shown(value);
        let how = row["name"].as_str().unwrap_or_default();
        let how = how.trim_start_matches("outbox");
        let raw = best(&question, &raw).map_or(String::new(), |(_, value)| shown(value));
        let (mut peer, mut ratio) = (String::new(), String::new());
        if let Some((row, value_of_peer)) = best(&question, &peers) {
            let name = row["name"].as_str().unwrap_or_default();
            let name = name.replace(" (", ", ").replace(')', "");
            let unordered = row["result"]["measured"]["ordered"] == false;
            let unordered = if unordered { ", unordered" } else { "" };
            peer = format!("{} ({name}{unordered})", shown(value_of_peer));
            if value_of_peer > 0.0 {
                let less = match question.figure.more_is_better() {
                    true => "",
                    false => ", less is better",
                };
                ratio = format!("{:.2}{less}", value / value_of_peer);
            }
        }
        let _ = writeln!(
            text,
            "| {} | {}{how} | {raw} | {peer} | {ratio} |",
            question.text,
            shown(value)
        );
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
    fn the_summary_has_the_best_of_each_and_who_that_was() {
        let wal = |name: &str, bytes: u32| {
            let mut row = row(WHOLE, name, json!({ "sent": 10 }));
            row["result"]["cost"]["wal_bytes"] = bytes.into();
            row
        };
        let mut unordered = rate("drain, 4 partitions", "graphile_worker", 160);
        unordered["result"]["measured"]["ordered"] = false.into();
        let said = summary(&[
            rate("enqueue, 16 producers", "raw", 1_000),
            rate("enqueue, 16 producers", "outbox", 900),
            rate("enqueue, 16 producers", "cf-modkit-db", 600),
            rate("drain, 4 partitions", "outbox", 200),
            rate("drain, 4 partitions", "outbox (high throughput)", 400),
            rate("drain, 4 partitions", "cf-modkit-db (low latency)", 50),
            unordered,
            rate("drain, 4 partitions, transactional", "outbox", 320),
            wal("outbox", 8_000),
            wal("awa", 20_000),
            wal("hexeract", 16_000),
        ]);
        let expected = "\
| | outbox | plain SQL | best peer | outbox / best peer |
|---|---|---|---|---|
| Messages enqueued, each in a transaction with a business row, 16 producers | 900/s | 1,000/s | 600/s (cf-modkit-db) | 1.50 |
| Messages of a backlog handled and cleaned up, leased | 400/s (high throughput) |  | 160/s (graphile_worker, unordered) | 2.50 |
| The same in transactions, exactly once | 320/s |  |  |  |
| WAL of a message, from enqueue to its end | 800 B |  | 1,600 B (hexeract) | 0.50, less is better |
";
        assert_eq!(said, expected);
    }
}
