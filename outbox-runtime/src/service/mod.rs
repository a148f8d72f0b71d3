//! The services: one file per loop.
//!
//! Each file has the service's configuration, its loop and its pass. A pass is one bounded piece of
//! work; the loop waits and logs. How long it waits is computed by a struct that knows no clock:
//! the loop hands the time in, so that tests need not sleep. Services import the passes of
//! `delivery` and `database`, and nothing of `engine`, which starts them.

pub(crate) mod dispatcher;
mod listener;
pub(crate) mod notifier;
pub(crate) mod orphan_bodies;
pub(crate) mod reconciler;
pub(crate) mod retention;
pub(crate) mod sequencer;
pub(crate) mod stuck_work;
pub(crate) mod supervisor;
pub(crate) mod vacuum;
