//! What a turn knows of suspects. What it remembers until the next turn is
//! `PartitionState::suspected`.

use super::{Solitude, needs_solitude, refused_beside_others};
use crate::database::cursor::{Claimed, Refuse};
use crate::delivery::consumer::Consumer;
use crate::delivery::processor::PartitionState;

/// Whether the turn has the right to work on a suspect that must be alone.
#[derive(Default)]
pub(crate) struct TurnQuarantine {
    /// Kept until what was done in solitude is acknowledged, with the next claim.
    solitude: Option<Solitude>,
}

impl TurnQuarantine {
    /// Before a claim: takes the right to solitude if the last claim was refused for want of it.
    /// False if another suspect has it. What is not acknowledged yet is acknowledged first.
    pub(crate) fn enter(&mut self, consumer: &Consumer, state: &PartitionState) -> bool {
        if !state.suspected || state.unsaved.is_some() {
            return true;
        }
        if self.solitude.is_none() {
            self.solitude = Solitude::take(consumer);
        }
        self.solitude.is_some()
    }

    /// Which suspects the next claim leaves alone.
    pub(crate) fn refuse(&self, consumer: &Consumer) -> Refuse {
        match self.solitude {
            Some(_) => Refuse::None,
            None => refused_beside_others(consumer),
        }
    }

    /// Whether a claim without messages may have left a suspect alone.
    pub(crate) fn may_have_refused(&self, claimed: &Claimed) -> bool {
        claimed.recovering.is_some() && self.solitude.is_none()
    }

    /// After a claim, which acknowledged what was done before: gives the right to solitude up if
    /// the new message does not need it.
    pub(crate) fn leave_unless_needed(&mut self, consumer: &Consumer, claimed: &Claimed) {
        let attempts = claimed.attempts.unwrap_or_default();
        if claimed.recovering.is_none() || !needs_solitude(consumer, attempts) {
            self.solitude = None;
        }
    }
}
