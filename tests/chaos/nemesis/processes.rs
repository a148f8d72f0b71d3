//! Faults of processes: killed, stopped, restarted, out of connections, out of time.

use super::Target;
use crate::process::Role;
use crate::scenario::LEASE;
use rustix::process::Signal;

/// Where a wall clock may go.
const CLOCKS: [&str; 6] = ["+3h", "-2h", "+1d", "-30m", "+45s", "+0"];

/// `kill -9`: the process can say nothing before it ends.
pub(super) fn kill(target: &Target<'_>, role: Role, rng: &mut fastrand::Rng) {
    let victim = target.victim(role, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::KILL)) {
        target.fault_counts.add("kills", 1);
    }
}

/// Stopped for longer than its lease, and then as if nothing had been.
pub(super) async fn stop(target: &Target<'_>, role: Role, rng: &mut fastrand::Rng) {
    let Some(victim) = target.victim(role, rng) else {
        return;
    };
    if victim.signal(Signal::STOP) {
        target.fault_counts.add("stops", 1);
        tokio::time::sleep(LEASE.duration.mul_f64(1.2 + rng.f64())).await;
    }
    victim.signal(Signal::CONT);
}

/// An orderly end, as in a deploy; it is started again.
pub(super) fn restart(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let victim = target.victim(Role::Worker, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::TERM)) {
        target.fault_counts.add("rolling restarts", 1);
    }
}

/// Its application takes every connection for a while.
pub(super) fn fill_pool(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let victim = target.victim(Role::Worker, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::USR1)) {
        target.fault_counts.add("full pools", 1);
    }
}

pub(super) fn move_clock(target: &Target<'_>, rng: &mut fastrand::Rng) {
    let offset = CLOCKS[rng.usize(..CLOCKS.len())];
    for clock in target
        .supervisor
        .processes
        .iter()
        .filter_map(|process| process.clock())
    {
        std::fs::write(&clock.offset, offset).expect("the clock's file");
        target.fault_counts.add("clock changes", 1);
    }
}
