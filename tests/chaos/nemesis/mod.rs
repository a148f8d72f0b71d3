//! Which faults happen, and when: a schedule made of a seed.
//!
//! Faults are dealt from a shuffled deck, so that every kind has its turn in every run that is
//! long enough. They do not wait for each other.

mod database;
mod network;
mod processes;

use crate::fault_counts::FaultCounts;
use crate::process::Role;
use crate::supervisor::{Process, Supervisor};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use outbox_tests::{PrivateServer, TestDb};
use std::pin::Pin;
use std::time::Duration;

/// The pause before the next fault, in milliseconds.
const PAUSE: std::ops::Range<u64> = 400..1_600;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    KillWorker,
    KillProducer,
    StopWorker,
    StopProducer,
    RestartWorker,
    CrashServer,
    RestartServer,
    EndSessions,
    Cut,
    HalfClose,
    Delay,
    FullPool,
    FullServer,
    LockStorm,
    LongTransaction,
    MoveClock,
}

/// Every kind: its name, how often it is in the deck, what it needs.
const DECK: [(Fault, &str, usize, Needs); 16] = [
    (Fault::KillWorker, "kill-worker", 3, Needs::Nothing),
    (Fault::KillProducer, "kill-producer", 2, Needs::Nothing),
    (Fault::StopWorker, "stop-worker", 2, Needs::Nothing),
    (Fault::StopProducer, "stop-producer", 1, Needs::Nothing),
    (Fault::RestartWorker, "restart-worker", 2, Needs::Nothing),
    (Fault::CrashServer, "crash-server", 1, Needs::OwnServer),
    (Fault::RestartServer, "restart-server", 1, Needs::OwnServer),
    (Fault::EndSessions, "end-sessions", 2, Needs::Network),
    (Fault::Cut, "cut", 3, Needs::Network),
    (Fault::HalfClose, "half-close", 2, Needs::Network),
    (Fault::Delay, "delay", 2, Needs::Network),
    (Fault::FullPool, "full-pool", 1, Needs::Nothing),
    (Fault::FullServer, "full-server", 1, Needs::OwnServer),
    (Fault::LockStorm, "lock-storm", 2, Needs::Nothing),
    (
        Fault::LongTransaction,
        "long-transaction",
        1,
        Needs::Nothing,
    ),
    (Fault::MoveClock, "move-clock", 2, Needs::Clock),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// A server that is the run's own.
    OwnServer,
    /// Connections.
    Network,
    /// A clock that can be moved.
    Clock,
}

impl Fault {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let found = DECK.iter().find(|(_, known, ..)| *known == name);
        found.map(|(fault, ..)| *fault)
    }
}

/// Faults without end, the same for the same seed.
pub(crate) struct Schedule {
    rng: fastrand::Rng,
    possible: Vec<Fault>,
    dealt: Vec<Fault>,
}

impl Schedule {
    pub(crate) fn new(seed: u64, possible: Vec<Fault>) -> Self {
        Self {
            rng: fastrand::Rng::with_seed(seed),
            possible,
            dealt: Vec::new(),
        }
    }

    /// The next fault, after how long, and the seed of its details. What is not
    /// possible is in the deck all the same, or another engine would have another order.
    fn deal(&mut self) -> Option<(Duration, Fault, u64)> {
        if self.possible.is_empty() {
            return None;
        }
        loop {
            if self.dealt.is_empty() {
                let cards = |(fault, _, count, _): &_| std::iter::repeat_n(*fault, *count);
                self.dealt = DECK.iter().flat_map(cards).collect();
                self.rng.shuffle(&mut self.dealt);
            }
            let fault = self.dealt.pop()?;
            if self.possible.contains(&fault) {
                let pause = Duration::from_millis(self.rng.u64(PAUSE));
                return Some((pause, fault, self.rng.u64(..)));
            }
        }
    }
}

/// What faults happen to.
pub(crate) struct Target<'a> {
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) db: &'a TestDb,
    pub(crate) server: Option<&'a PrivateServer>,
    pub(crate) fault_counts: &'a FaultCounts,
    /// One thing at a time is done to the server.
    pub(crate) at_server: tokio::sync::Mutex<()>,
}

impl Target<'_> {
    /// What can happen here; of `only` these, if there are any.
    pub(crate) fn possible(&self, only: &[Fault]) -> Vec<Fault> {
        let possible = |needs: Needs| match needs {
            Needs::Nothing => true,
            Needs::OwnServer => self.server.is_some(),
            Needs::Network => self.supervisor.processes.iter().any(|m| m.proxy.is_some()),
            Needs::Clock => self
                .supervisor
                .processes
                .iter()
                .any(|m| m.clock().is_some()),
        };
        let wanted = |fault: Fault| only.is_empty() || only.contains(&fault);
        DECK.iter()
            .filter(|(fault, _, _, needs)| possible(*needs) && wanted(*fault))
            .map(|(fault, ..)| *fault)
            .collect()
    }

    /// A process of a role, chosen at random.
    fn victim(&self, role: Role, rng: &mut fastrand::Rng) -> Option<&Process> {
        let processes = self.supervisor.of(role);
        rng.choice(processes)
    }
}

/// Injects faults for so long, and waits until the last is over.
pub(crate) async fn inject_faults(target: &Target<'_>, mut schedule: Schedule, time: Duration) {
    let over = tokio::time::sleep(time);
    tokio::pin!(over);
    let mut running: FuturesUnordered<Pin<Box<dyn Future<Output = ()> + '_>>> =
        FuturesUnordered::new();
    while let Some((pause, fault, seed)) = schedule.deal() {
        let pause = tokio::time::sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut over => {
                    while running.next().await.is_some() {}
                    return;
                }
                () = &mut pause => break,
                Some(()) = running.next() => {}
            }
        }
        running.push(Box::pin(inject(target, fault, seed)));
    }
    over.await;
}

async fn inject(target: &Target<'_>, fault: Fault, seed: u64) {
    let rng = &mut fastrand::Rng::with_seed(seed);
    match fault {
        Fault::KillWorker => processes::kill(target, Role::Worker, rng),
        Fault::KillProducer => processes::kill(target, Role::Producer, rng),
        Fault::StopWorker => processes::stop(target, Role::Worker, rng).await,
        Fault::StopProducer => processes::stop(target, Role::Producer, rng).await,
        Fault::RestartWorker => processes::restart(target, rng),
        Fault::FullPool => processes::fill_pool(target, rng),
        Fault::MoveClock => processes::move_clock(target, rng),
        Fault::CrashServer => database::crash(target).await,
        Fault::RestartServer => database::restart(target).await,
        Fault::EndSessions => database::end_sessions(target).await,
        Fault::FullServer => database::fill(target).await,
        Fault::LockStorm => database::lock_storm(target, rng).await,
        Fault::LongTransaction => database::long_transaction(target).await,
        Fault::Cut => network::cut(target, rng),
        Fault::HalfClose => network::half_close(target, rng),
        Fault::Delay => network::delay(target, rng).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(seed: u64, count: usize) -> Vec<Fault> {
        let mut schedule = Schedule::new(seed, DECK.iter().map(|(fault, ..)| *fault).collect());
        (0..count).map(|_| schedule.deal().unwrap().1).collect()
    }

    #[test]
    fn a_seed_repeats_its_schedule() {
        assert_eq!(faults(7, 100), faults(7, 100));
        assert_ne!(faults(7, 100), faults(8, 100));
    }

    #[test]
    fn every_fault_has_its_turn() {
        let deck: usize = DECK.iter().map(|(_, _, count, _)| count).sum();
        let dealt = faults(7, deck);
        assert!(DECK.iter().all(|(fault, ..)| dealt.contains(fault)));
    }

    /// The short runs in `runs.rs` have this seed.
    #[test]
    fn the_seed_of_the_short_runs_begins_with_the_worst() {
        let dealt = faults(647, 8);
        for fault in [
            Fault::KillWorker,
            Fault::KillProducer,
            Fault::StopWorker,
            Fault::CrashServer,
            Fault::RestartServer,
            Fault::Cut,
        ] {
            assert!(dealt.contains(&fault), "{fault:?} is not in {dealt:?}");
        }
    }
}
