//! Faults of processes: killed, stopped, restarted, out of connections, out of time.

use super::Ground;
use crate::member::Role;
use crate::world::LEASE;
use rustix::process::Signal;

/// Where a wall clock may go.
const CLOCKS: [&str; 6] = ["+3h", "-2h", "+1d", "-30m", "+45s", "+0"];

/// `kill -9`: it can tell nobody.
pub(super) fn kill(ground: &Ground<'_>, role: Role, rng: &mut fastrand::Rng) {
    let victim = ground.victim(role, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::KILL)) {
        ground.tally.add("kills", 1);
    }
}

/// Stopped for longer than its lease, and then as if nothing had been.
pub(super) async fn stop(ground: &Ground<'_>, role: Role, rng: &mut fastrand::Rng) {
    let Some(victim) = ground.victim(role, rng) else {
        return;
    };
    if victim.signal(Signal::STOP) {
        ground.tally.add("stops", 1);
        tokio::time::sleep(LEASE.duration.mul_f64(1.2 + rng.f64())).await;
    }
    victim.signal(Signal::CONT);
}

/// An orderly end, as in a deploy; it is started again.
pub(super) fn restart(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let victim = ground.victim(Role::Worker, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::TERM)) {
        ground.tally.add("rolling restarts", 1);
    }
}

/// Its application takes every connection for a while.
pub(super) fn fill_pool(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let victim = ground.victim(Role::Worker, rng);
    if victim.is_some_and(|victim| victim.signal(Signal::USR1)) {
        ground.tally.add("full pools", 1);
    }
}

pub(super) fn move_clock(ground: &Ground<'_>, rng: &mut fastrand::Rng) {
    let offset = CLOCKS[rng.usize(..CLOCKS.len())];
    for clock in ground
        .crew
        .members
        .iter()
        .filter_map(|member| member.clock())
    {
        std::fs::write(&clock.offset, offset).expect("the clock's file");
        ground.tally.add("clock changes", 1);
    }
}
