//! This tree and another commit, in turn on the same servers: medians, spreads, and whether
//! there is a difference at all.

use super::cases::Case;
use super::report::{per_message, thousands};
use serde_json::Value;
use std::fmt::Write;

/// A figure of one run.
struct Figure {
    name: &'static str,
    value: f64,
    more_is_better: bool,
}

/// The figures of a run's result that are compared.
fn figures(result: &Value) -> Vec<Figure> {
    let found = &result["measured"]["found"];
    let idle = result["measured"]["settings"]["workload"] == "idle";
    let cost = |name| per_message(result, name).filter(|_| !idle);
    let idle_statements = result["statements_per_second"].as_f64().filter(|_| idle);
    let figures = [
        ("messages/s", found["per_second"].as_f64(), true),
        ("p50 ms", found["seen"]["p50_ms"].as_f64(), false),
        ("p99 ms", found["seen"]["p99_ms"].as_f64(), false),
        ("WAL bytes/message", cost("wal_bytes"), false),
        ("statements/message", cost("statements"), false),
        ("statements/s", idle_statements, false),
        ("MB", result["measured"]["memory_mb"].as_f64(), false),
    ];
    let known = figures
        .into_iter()
        .filter_map(|(name, value, more_is_better)| {
            Some(Figure {
                name,
                value: value?,
                more_is_better,
            })
        });
    known.collect()
}

/// The results of one case, one for each round.
pub struct Rounds {
    pub case: Case,
    pub before: Vec<Value>,
    pub after: Vec<Value>,
}

/// One table of all cases.
pub fn table(all: &[Rounds]) -> String {
    let mut text = String::from(
        "| case | figure | before | after | after / before | |\n|---|---|---|---|---|---|\n",
    );
    for rounds in all {
        let before: Vec<Vec<Figure>> = rounds.before.iter().map(figures).collect();
        let after: Vec<Vec<Figure>> = rounds.after.iter().map(figures).collect();
        for figure in before.first().into_iter().flatten() {
            let of = |runs: &[Vec<Figure>]| {
                let same = |run: &Vec<Figure>| {
                    let found = run.iter().find(|other| other.name == figure.name);
                    found.map(|found| found.value)
                };
                Spread::of(runs.iter().filter_map(same).collect())
            };
            let (Some(before), Some(after)) = (of(&before), of(&after)) else {
                continue;
            };
            let _ = writeln!(
                text,
                "| {} {} | {} | {before} | {after} | {:.2} | {} |",
                rounds.case.id,
                rounds.case.name,
                figure.name,
                after.median / before.median.max(f64::MIN_POSITIVE),
                verdict(&before, &after, figure.more_is_better),
            );
        }
    }
    text
}

/// The median of some runs, with the least and the most.
#[derive(Debug, PartialEq)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median = match values.len() % 2 {
            1 => values[half],
            _ => (values[half - 1] + values[half]) / 2.0,
        };
        Some(Self {
            least,
            median,
            most,
        })
    }

    fn width(&self) -> f64 {
        self.most - self.least
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| match value {
            value if value >= 100.0 => thousands(value),
            value => format!("{value:.2}"),
        };
        let (least, most) = (number(self.least), number(self.most));
        write!(f, "{} ({least} to {most})", number(self.median))
    }
}

/// Level if the medians differ by no more than the runs of one side do.
fn verdict(before: &Spread, after: &Spread, more_is_better: bool) -> &'static str {
    let difference = after.median - before.median;
    if difference.abs() <= before.width().max(after.width()) {
        "level"
    } else if (difference > 0.0) == more_is_better {
        "better"
    } else {
        "WORSE"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[f64]) -> Spread {
        Spread::of(values.to_vec()).unwrap()
    }

    #[test]
    fn a_difference_inside_the_spread_is_none() {
        let before = spread(&[100.0, 90.0, 110.0]);
        assert_eq!(before.median, 100.0);
        assert_eq!(
            verdict(&before, &spread(&[85.0, 84.0, 86.0]), true),
            "level"
        );
        assert_eq!(
            verdict(&before, &spread(&[70.0, 71.0, 72.0]), true),
            "WORSE"
        );
        assert_eq!(
            verdict(&before, &spread(&[70.0, 71.0, 72.0]), false),
            "better"
        );
        assert_eq!(verdict(&before, &spread(&[130.0, 131.0]), true), "better");
        let exact = spread(&[2.0, 2.0, 2.0]);
        assert_eq!(verdict(&exact, &spread(&[2.0, 2.0, 2.0]), false), "level");
        assert_eq!(verdict(&exact, &spread(&[3.0, 3.0, 3.0]), false), "WORSE");
    }

    #[test]
    fn there_is_no_median_of_nothing() {
        assert_eq!(Spread::of(Vec::new()), None);
        assert_eq!(spread(&[1.0, 3.0]).median, 2.0);
        assert_eq!(spread(&[1.234]).to_string(), "1.23 (1.23 to 1.23)");
    }
}
