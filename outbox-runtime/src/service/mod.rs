//! The services: one file per loop. Each calls bounded passes, waits, and survives whatever a
//! pass does.

pub(crate) mod dispatcher;
pub(crate) mod notifier;
pub(crate) mod orphans;
pub(crate) mod reconciler;
pub(crate) mod retention;
pub(crate) mod sequencer;
pub(crate) mod supervisor;
pub(crate) mod vacuum;
pub(crate) mod watch;
