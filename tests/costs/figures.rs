//! The file of figures: what something cost when it was last agreed on.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// How much more is taken for the same.
const TOLERANCE: f64 = 1.03;

/// These depend on us alone; all others also on the version of what counted them.
const OUR_OWN: [&str; 3] = ["statements", "round trips", "rows written"];

/// Taken by a test while it reads or rewrites the file, so that it does so alone.
static FILE: Mutex<()> = Mutex::new(());

/// Figures of one engine, measured now or pinned.
pub(crate) struct Table {
    /// The engine, and in brackets its version.
    heading: String,
    columns: Vec<String>,
    /// Not every row has a figure in every column.
    rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Table {
    pub(crate) fn new(heading: String, columns: &[&str]) -> Self {
        Self {
            heading,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// What lies between two readings, each of so many.
    pub(crate) fn add(&mut self, what: &str, before: &[f64], after: &[f64], times: f64) {
        let costs = before.iter().zip(after);
        let costs = costs.map(|(before, after)| Some((after - before) / times));
        self.rows.push((what.to_owned(), costs.collect()));
    }

    /// Fails if something costs more than is agreed on, and says all of it.
    pub(crate) fn assert_pinned(&self) {
        if std::env::var("OUTBOX_COSTS").is_ok_and(|what| what == "write") {
            let _alone = FILE.lock().unwrap_or_else(PoisonError::into_inner);
            let mut figures = Figures::read();
            figures.take(self);
            figures.write();
        }
        let dearer = self.dearer();
        assert!(
            dearer.is_empty(),
            "costs have grown on {}:\n{}\n\nAll that was measured:\n{}\n\n\
             If that is meant, say why in the commit, and pin it with: \
             OUTBOX_COSTS=write scripts/test costs_of_",
            self.heading,
            dearer.join("\n"),
            self.shown(),
        );
    }

    /// In words, what costs more than was agreed on.
    pub(crate) fn dearer(&self) -> Vec<String> {
        let _alone = FILE.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = Figures::read();
        self.dearer_than(figures.of(self.kind()))
    }

    fn dearer_than(&self, pinned: Option<&Self>) -> Vec<String> {
        let same_version = pinned.is_some_and(|pinned| pinned.heading == self.heading);
        let mut dearer = Vec::new();
        for (what, column, cost) in self.cells() {
            let Some(before) = pinned.and_then(|pinned| pinned.get(what, column)) else {
                dearer.push(format!("  {what}: {column} {cost:.2}, not pinned yet"));
                continue;
            };
            // The file has them rounded.
            let most = before * TOLERANCE + if before < 100.0 { 0.005 } else { 0.5 };
            if cost > most && (same_version || OUR_OWN.contains(&column)) {
                let more = (cost / before - 1.0) * 100.0;
                dearer.push(format!(
                    "  {what}: {column} before {before}, after {cost:.2} (+{more:.1} %)"
                ));
            }
        }
        dearer
    }

    /// The heading without the version.
    fn kind(&self) -> &str {
        self.heading.split(" (").next().unwrap_or_default()
    }

    fn cells(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.rows.iter().flat_map(|(what, costs)| {
            let costs = self.columns.iter().zip(costs);
            costs.filter_map(move |(column, cost)| Some((&**what, &**column, (*cost)?)))
        })
    }

    fn get(&self, what: &str, column: &str) -> Option<f64> {
        let mut cells = self.cells();
        let found = cells.find(|(row, name, _)| (*row, *name) == (what, column));
        found.map(|(_, _, cost)| cost)
    }

    fn set(&mut self, what: &str, column: &str, cost: f64) {
        let column = index_of(
            &mut self.columns,
            |known| known == column,
            column.to_owned(),
        );
        let row = (what.to_owned(), Vec::new());
        let row = index_of(&mut self.rows, |(known, _)| known == what, row);
        let costs = &mut self.rows[row].1;
        costs.resize(costs.len().max(self.columns.len()), None);
        costs[column] = Some(cost);
    }

    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let heading = lines.next().unwrap_or_default().trim().to_owned();
        let cells = |line: &str| -> (String, Vec<String>) {
            let line = line.trim().trim_start_matches('|').trim_end_matches('|');
            let mut cells = line.split('|').map(|cell| cell.trim().to_owned());
            (cells.next().unwrap_or_default(), cells.collect())
        };
        let mut rows = lines.filter(|line| line.starts_with('|')).map(cells);
        let columns = rows.next().unwrap_or_default().1;
        let rows = rows.skip(1).map(|(what, costs)| {
            let costs = costs.iter().map(|cost| cost.parse().ok());
            (what, costs.collect())
        });
        Self {
            heading,
            columns,
            rows: rows.collect(),
        }
    }

    fn shown(&self) -> String {
        let mut text = format!("| | {} |\n|---|", self.columns.join(" | "));
        text.push_str(&"---|".repeat(self.columns.len()));
        for (what, costs) in &self.rows {
            let shown = |cost: &Option<f64>| match cost {
                Some(cost) if *cost < 100.0 => format!("{cost:.2}"),
                Some(cost) => format!("{cost:.0}"),
                None => String::new(),
            };
            let costs: Vec<String> = costs.iter().map(shown).collect();
            let _ = write!(text, "\n| {what} | {} |", costs.join(" | "));
        }
        text
    }
}

/// Where something is in a list, behind the others if it was not there.
fn index_of<T>(list: &mut Vec<T>, is_it: impl FnMut(&T) -> bool, new: T) -> usize {
    list.iter().position(is_it).unwrap_or_else(|| {
        list.push(new);
        list.len() - 1
    })
}

/// The file: a few words, and a table for each engine.
struct Figures {
    words: String,
    tables: Vec<Table>,
}

impl Figures {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("costs/figures.md")
    }

    fn read() -> Self {
        Self::parse(&std::fs::read_to_string(Self::path()).expect("costs/figures.md"))
    }

    fn parse(text: &str) -> Self {
        let mut parts = text.split("\n## ");
        Self {
            words: parts.next().unwrap_or_default().trim().to_owned(),
            tables: parts.map(Table::parse).collect(),
        }
    }

    fn write(&self) {
        std::fs::write(Self::path(), self.text()).expect("costs/figures.md");
    }

    fn text(&self) -> String {
        let mut text = self.words.clone();
        for table in &self.tables {
            let _ = write!(text, "\n\n## {}\n\n{}", table.heading, table.shown());
        }
        text.push('\n');
        text
    }

    fn of(&self, kind: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.kind() == kind)
    }

    /// Agrees on what was measured.
    fn take(&mut self, measured: &Table) {
        let new = Table::new(String::new(), &[]);
        let kind = measured.kind();
        let index = index_of(&mut self.tables, |table| table.kind() == kind, new);
        let pinned = &mut self.tables[index];
        pinned.heading.clone_from(&measured.heading);
        for (what, column, cost) in measured.cells() {
            pinned.set(what, column, cost);
        }
        self.tables.sort_by(|a, b| a.heading.cmp(&b.heading));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(heading: &str, statements: f64, bytes: f64) -> Table {
        let mut table = Table::new(heading.to_owned(), &["statements", "WAL bytes"]);
        table.add("a batch", &[1.0, 0.0], &[1.0 + statements, bytes], 1.0);
        table
    }

    fn dearer(heading: &str, statements: f64, bytes: f64) -> Vec<String> {
        let mut figures = Figures::parse("# Words");
        figures.take(&measured("Server (15)", 2.0, 1_000.0));
        let figures = Figures::parse(&figures.text());
        let table = measured(heading, statements, bytes);
        table.dearer_than(figures.of(table.kind()))
    }

    #[test]
    fn three_per_cent_more_is_the_same_and_four_are_not() {
        assert!(dearer("Server (15)", 2.06, 1_030.0).is_empty());
        assert!(dearer("Server (15)", 1.0, 1.0).is_empty());
        let expected = "  a batch: WAL bytes before 1000, after 1040.00 (+4.0 %)";
        assert_eq!(dearer("Server (15)", 2.0, 1_040.0), [expected]);
    }

    #[test]
    fn another_version_is_compared_by_what_is_our_own() {
        let expected = "  a batch: statements before 2, after 3.00 (+50.0 %)";
        assert_eq!(dearer("Server (16)", 3.0, 9_000.0), [expected]);
    }

    #[test]
    fn what_nobody_has_agreed_on_is_said() {
        let said = dearer("Other (1)", 2.0, 1_000.0);
        assert_eq!(said[0], "  a batch: statements 2.00, not pinned yet");
        assert_eq!(said.len(), 2);
    }
}
