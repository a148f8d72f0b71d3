//! Defects that the fault suite must catch: a checker that has never seen a broken
//! engine proves nothing.
//!
//! Only with the feature `sabotage`, and even then nothing happens before [`commit`] is called. Each
//! defect is one function, called at one place: in `delivery/` or `database/`.

use std::sync::atomic::{AtomicU8, Ordering};

/// A way to break the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Sabotage {
    /// Leased messages are acknowledged before their handlers run.
    AckFirst = 1,
    /// An acknowledgement takes effect whichever process has the lease.
    IgnoreLease = 2,
    /// The sequencer looks only above the highest id it has seen.
    SkipLate = 3,
}

static COMMITTED: AtomicU8 = AtomicU8::new(0);

/// Breaks the engine of this process, for good.
pub fn commit(sabotage: Sabotage) {
    COMMITTED.store(sabotage as u8, Ordering::Release);
}

pub(crate) fn is(sabotage: Sabotage) -> bool {
    COMMITTED.load(Ordering::Acquire) == sabotage as u8
}
