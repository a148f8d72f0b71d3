//! Whether what happened is what was promised.

use crate::history::{Event, History};
use crate::journal::Delivery;
use crate::scenario::{CONSUMERS, Consumer};
use outbox_runtime::Mode;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// A promise that can be broken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Promise {
    /// Every committed event reaches every consumer, or the dead letters with a reason.
    NothingLost,
    /// Nothing that was not committed is seen anywhere, and ids stay what they were.
    NothingInvented,
    /// A transactional effect happens once, or the message is a dead letter.
    LedgerExact,
    /// Per key, first deliveries are in the order of commits.
    InOrder,
    /// Only the process with the lease acknowledges.
    LeaseRespected,
    /// At the end there is nothing left: rows, leases, connections, processes.
    NothingLeft,
}

impl Promise {
    const ALL: [Self; 6] = [
        Self::NothingLost,
        Self::NothingInvented,
        Self::LedgerExact,
        Self::InOrder,
        Self::LeaseRespected,
        Self::NothingLeft,
    ];

    /// What is counted when it is broken.
    fn count(self) -> &'static str {
        match self {
            Self::NothingLost => "lost",
            Self::NothingInvented => "invented",
            Self::LedgerExact => "ledger errors",
            Self::InOrder => "order violations",
            Self::LeaseRespected => "lease violations",
            Self::NothingLeft => "left over",
        }
    }
}

/// What the checker found.
pub(crate) struct Verdict {
    pub(crate) broken: BTreeMap<Promise, Vec<String>>,
    counts: String,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.broken.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.counts)?;
        let found = |promise: &Promise| self.broken.get(promise).map_or(0, Vec::len);
        let counts = Promise::ALL.map(|promise| format!("{} {}", promise.count(), found(&promise)));
        write!(f, "{}", counts.join(", "))?;
        for (promise, cases) in &self.broken {
            for case in cases.iter().take(10) {
                write!(f, "\n  {}: {case}", promise.count())?;
            }
        }
        Ok(())
    }
}

/// Checks a whole history.
pub(crate) fn judge(history: &History) -> Verdict {
    let mut checker = Checker {
        history,
        events: history
            .committed
            .iter()
            .map(|event| (event.mark, event))
            .collect(),
        broken: BTreeMap::new(),
    };
    checker.check_invented();
    for consumer in &CONSUMERS {
        match consumer.mode {
            Mode::Leased => checker.check_leased(consumer),
            Mode::Transactional => checker.check_transactional(consumer),
        }
    }
    for case in &history.lease {
        checker.breaks(Promise::LeaseRespected, case.clone());
    }
    for case in &history.left {
        checker.breaks(Promise::NothingLeft, case.clone());
    }
    Verdict {
        counts: checker.counts(),
        broken: checker.broken,
    }
}

struct Checker<'a> {
    history: &'a History,
    events: HashMap<i64, &'a Event>,
    broken: BTreeMap<Promise, Vec<String>>,
}

impl<'a> Checker<'a> {
    fn breaks(&mut self, promise: Promise, case: String) {
        self.broken.entry(promise).or_default().push(case);
    }

    fn check_invented(&mut self) {
        let history = self.history;
        let begun = history
            .begun
            .iter()
            .map(|d| (&d.consumer, Some(d.mark), d.message_id));
        let effects = history
            .effects
            .iter()
            .map(|e| (&e.consumer, Some(e.mark), e.message_id));
        let letters = history
            .letters
            .iter()
            .map(|l| (&l.consumer, l.mark, l.message_id));
        for (consumer, mark, id) in begun.chain(effects).chain(letters) {
            let event = mark.and_then(|mark| self.events.get(&mark).copied());
            let reads = |event: &Event| {
                let by = |c: &Consumer| c.name == consumer && c.queue.name() == event.queue;
                CONSUMERS.iter().any(by)
            };
            let case = match event {
                None => format!("{consumer} got message {id}, which nobody committed"),
                Some(event) if event.message_id != id => {
                    format!("{consumer} got {} as message {id}", show(event))
                }
                Some(event) if !reads(event) => format!("{consumer} got {}", show(event)),
                Some(_) => continue,
            };
            self.breaks(Promise::NothingInvented, case);
        }
        for mark in &history.confirmed {
            if !self.events.contains_key(mark) {
                let case = format!("the commit of event {mark} was confirmed and is gone");
                self.breaks(Promise::NothingLost, case);
            }
        }
    }

    fn check_leased(&mut self, consumer: &Consumer) {
        let of = |delivery: &&Delivery| delivery.consumer == consumer.name;
        let done: HashSet<i64> = self
            .history
            .done
            .iter()
            .filter(of)
            .map(|d| d.mark)
            .collect();
        let dead = self.dead(consumer);
        for event in self.committed(consumer) {
            let buried = dead.get(&event.mark).copied().unwrap_or(0);
            if buried > 1 {
                let case = format!("{} buried {buried} times by {}", show(event), consumer.name);
                self.breaks(Promise::NothingInvented, case);
            }
            if buried == 0 && !done.contains(&event.mark) {
                let case = format!("{} never reached {}", show(event), consumer.name);
                self.breaks(Promise::NothingLost, case);
            }
        }
        let mut begun: Vec<&Delivery> = self.history.begun.iter().filter(of).collect();
        begun.sort_by_key(|delivery| delivery.at);
        self.check_order(consumer, begun.into_iter().map(|delivery| delivery.mark));
    }

    fn check_transactional(&mut self, consumer: &Consumer) {
        let history = self.history;
        let effects = history
            .effects
            .iter()
            .filter(|e| e.consumer == consumer.name);
        let mut count: HashMap<i64, usize> = HashMap::new();
        for effect in effects.clone() {
            *count.entry(effect.mark).or_default() += 1;
        }
        let dead = self.dead(consumer);
        for event in self.committed(consumer) {
            let effects = count.get(&event.mark).copied().unwrap_or(0);
            let buried = dead.get(&event.mark).copied().unwrap_or(0);
            let (promise, what) = match (effects, buried) {
                (1, 0) | (0, 1) => continue,
                (0, 0) => (Promise::NothingLost, "never reached".to_owned()),
                (_, 0) => (
                    Promise::LedgerExact,
                    format!("took effect {effects} times in"),
                ),
                _ => (
                    Promise::LedgerExact,
                    format!("took effect {effects} times and was buried {buried} times by"),
                ),
            };
            self.breaks(promise, format!("{} {what} {}", show(event), consumer.name));
        }
        self.check_order(consumer, effects.map(|effect| effect.mark));
    }

    /// `marks` in the order of delivery; what comes again does not count.
    fn check_order(&mut self, consumer: &Consumer, marks: impl Iterator<Item = i64>) {
        let mut seen = HashSet::new();
        let mut last: HashMap<&str, &Event> = HashMap::new();
        for mark in marks {
            let Some(event) = self.events.get(&mark).copied() else {
                continue;
            };
            if !seen.insert(mark) {
                continue;
            }
            if let Some(before) = last.insert(&event.key, event)
                && before.n > event.n
            {
                let case = format!(
                    "{} got {} after {}",
                    consumer.name,
                    show(event),
                    show(before)
                );
                self.breaks(Promise::InOrder, case);
            }
        }
    }

    fn committed(&self, consumer: &Consumer) -> Vec<&'a Event> {
        let of = |event: &&Event| event.queue == consumer.queue.name();
        self.history.committed.iter().filter(of).collect()
    }

    /// How often each mark is in the consumer's dead letters, with a reason.
    fn dead(&self, consumer: &Consumer) -> HashMap<i64, usize> {
        let mut dead = HashMap::new();
        for letter in &self.history.letters {
            if let Some(mark) = letter.mark
                && letter.consumer == consumer.name
                && !letter.reason.is_empty()
            {
                *dead.entry(mark).or_default() += 1;
            }
        }
        dead
    }

    fn counts(&self) -> String {
        let history = self.history;
        let first: HashSet<(&str, i64)> = history
            .begun
            .iter()
            .map(|d| (&*d.consumer, d.mark))
            .collect();
        format!(
            "committed {} events (rolled back {} times, died before the commit {} times)\n\
             delivered {} (leased {}, transactional {}), redelivered {}, dead-lettered {}",
            history.committed.len(),
            history.rolled_back,
            history.died,
            first.len() + history.effects.len(),
            first.len(),
            history.effects.len(),
            history.begun.len() - first.len(),
            history.letters.len(),
        )
    }
}

fn show(event: &Event) -> String {
    format!(
        "{} number {} (message {})",
        event.key, event.n, event.message_id
    )
}

#[cfg(test)]
mod tests;
