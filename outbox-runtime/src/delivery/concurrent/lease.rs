//! The lease of a session.

use crate::database::read_ahead::Held;
use crate::delivery::consumer::Consumer;
use crate::delivery::guard::{LeaseClock, Stop};
use tokio_util::sync::CancellationToken;

/// The lease that a session holds, and what tells its handlers that it is over.
pub(super) struct SessionLease {
    /// Raised by everything that is written under the lease.
    pub(super) epoch: i64,
    pub(super) clock: LeaseClock,
    /// Its `stopping` is cancelled when the lease is lost.
    pub(super) stop: Stop,
    /// Cancelled a little later, when what still runs is dropped.
    pub(super) lost: CancellationToken,
}

impl SessionLease {
    pub(super) fn new(consumer: &Consumer, held: &Held, clock: LeaseClock) -> Self {
        let stop = Stop {
            stopping: consumer.stop.stopping.child_token(),
            ..consumer.stop.clone()
        };
        Self {
            epoch: held.epoch,
            clock,
            stop,
            lost: CancellationToken::new(),
        }
    }

    /// Whether it is so nearly over that no handler may be at work any more.
    pub(super) fn is_late(&self) -> bool {
        self.clock.is_late()
    }

    /// The database has it under the next epoch; `clock` was started before that was asked for.
    pub(super) fn renewed(&mut self, clock: LeaseClock) {
        self.epoch += 1;
        self.clock = clock;
    }
}
