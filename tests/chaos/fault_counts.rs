//! How often each thing happened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(crate) struct FaultCounts(Mutex<BTreeMap<&'static str, u64>>);

impl FaultCounts {
    pub(crate) fn add(&self, what: &'static str, count: u64) {
        *self.lock().entry(what).or_default() += count;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.lock();
        let parts: Vec<String> = counts
            .iter()
            .map(|(what, n)| format!("{what} {n}"))
            .collect();
        f.write_str(&parts.join(", "))
    }
}
