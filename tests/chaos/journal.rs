//! What a process did, in a file of its own: outside the database, so that no
//! rollback takes it back, and one `write` per line, so that a kill cuts none.

use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;
use std::sync::Arc;

/// A line of a journal. Fields have no spaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// A leased handler begins.
    Begun(Delivery),
    /// It is about to return success.
    Done(Delivery),
    /// A producer was told that its transaction is committed.
    Committed(Vec<i64>),
    /// A producer rolled a transaction or a savepoint back.
    RolledBack(Vec<i64>),
    /// A producer is about to die between enqueue and commit.
    Dying,
}

/// A message given to a leased handler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Delivery {
    /// Nanoseconds of the monotonic clock, which all processes share.
    pub(crate) at: u64,
    pub(crate) consumer: String,
    pub(crate) mark: i64,
    pub(crate) message_id: i64,
}

/// The monotonic clock of the machine.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Where a process writes.
#[derive(Clone)]
pub(crate) struct Journal(Arc<File>);

impl Journal {
    /// The journal of this process.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(format!("{}.journal", std::process::id()));
        let file = File::options().append(true).create(true).open(path)?;
        Ok(Self(Arc::new(file)))
    }

    pub(crate) fn write(&self, entry: &Entry) -> Result<()> {
        (&*self.0).write_all(entry.to_line().as_bytes())
    }
}

impl Entry {
    fn to_line(&self) -> String {
        let list = |marks: &[i64]| {
            marks
                .iter()
                .map(|mark| format!(" {mark}"))
                .collect::<String>()
        };
        let delivery =
            |d: &Delivery| format!("{} {} {} {}", d.at, d.consumer, d.mark, d.message_id);
        match self {
            Self::Begun(d) => format!("begun {}\n", delivery(d)),
            Self::Done(d) => format!("done {}\n", delivery(d)),
            Self::Committed(marks) => format!("committed{}\n", list(marks)),
            Self::RolledBack(marks) => format!("rolled-back{}\n", list(marks)),
            Self::Dying => "dying\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        let kind = fields.next()?;
        if matches!(kind, "begun" | "done") {
            let delivery = Delivery {
                at: fields.next()?.parse().ok()?,
                consumer: fields.next()?.to_owned(),
                mark: fields.next()?.parse().ok()?,
                message_id: fields.next()?.parse().ok()?,
            };
            return Some(match kind {
                "begun" => Self::Begun(delivery),
                _ => Self::Done(delivery),
            });
        }
        let marks: Option<Vec<i64>> = fields.map(|mark| mark.parse().ok()).collect();
        match kind {
            "committed" => Some(Self::Committed(marks?)),
            "rolled-back" => Some(Self::RolledBack(marks?)),
            "dying" => Some(Self::Dying),
            _ => None,
        }
    }
}

/// Every entry of every journal in a directory, those of one process in order.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for file in std::fs::read_dir(directory)? {
        let path = file?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "journal")
        {
            for line in std::fs::read_to_string(&path)?.lines() {
                let entry = Entry::parse(line);
                entries.push(entry.unwrap_or_else(|| panic!("{}: {line}", path.display())));
            }
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let delivery = Delivery {
            at: now(),
            consumer: "mailer".to_owned(),
            mark: 7,
            message_id: 8,
        };
        for entry in [
            Entry::Begun(delivery.clone()),
            Entry::Done(delivery),
            Entry::Committed(vec![1, 2]),
            Entry::RolledBack(vec![]),
            Entry::Dying,
        ] {
            assert_eq!(Entry::parse(entry.to_line().trim_end()), Some(entry));
        }
    }
}
