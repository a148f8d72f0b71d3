//! Quarantine: messages that are suspected of killing their process.
//!
//! **What a suspect is.** A cursor says `claimed_seq > processed_seq`, and no process holds its
//! lease: then a claim died. Any message of that claim may have killed the process, so
//! each of them is a suspect: every message up to `claimed_seq`.
//!
//! **A suspect is claimed alone.** The database returns suspects one at a time
//! (`Claimed::recovering`). A concurrent session, which knows many messages, runs nothing beside a
//! suspect.
//!
//! **Some suspects must be alone in the process.** When a process dies, each of its partitions may
//! have a suspect at work. All of them are charged for what one of them did. So a suspect that
//! already has a death on record must be the only suspect at work in its process. If a handler of
//! the consumer allows one attempt only, every suspect must be. The process has one permit for
//! this: [`Solitude`]. A turn asks the database to refuse such a message while it does not hold the
//! permit; it then takes the permit and claims again. It keeps the permit until the message is
//! acknowledged. A session takes the permit before it starts the handler, and keeps it until it
//! has written down what became of the message.
//!
//! **A suspect is charged.** Immediately before its handler runs, one death is written into its
//! record and committed: afterwards it may be too late. For a transactional handler the connection
//! is in hand by then, where the engine claims on that connection. A message with as many deaths as
//! it may have attempts becomes a dead letter instead.
//!
//! **The charge ends** in one of these ways:
//!
//! | what happened | what becomes of the charge |
//! |---|---|
//! | the handler killed the process | it stays, and counts as a death |
//! | the handler succeeded, or the message became a dead letter | its record is deleted once the cursor has passed it |
//! | the handler failed | it becomes a failure |
//! | the handler did not start, or the process stops, or a commit lost a race | it is taken back as the claim is given back |
//! | the lease was lost, and the handler had returned in time | it is taken back without a lease: the database was slow, and the message did nothing |
//! | the end of the claim could not be written while the lease lasted, and the handler did not run or had returned in time | it is owed, and taken back before the next claim |
//! | a session lost its lease, and dropped the handler for that while it had time left | it is taken back in the same way |
//! | the lease was lost, and the handler did not return in time | it stays: a handler that blocks until its lease is lost, each time, must come to an end too |
//! | the connection was lost in the handler's transaction | it stays: a message that ends its connection each time must come to an end too |
//! | an answer was lost, and with it whether there is a charge | it may stay although it should not |
//!
//! **A charge may be owed.** The process may have to take a charge back while the pool has no
//! connection or the database is away. It remembers the charge in [`Owed`], also while no turn runs.
//! It pays before it claims from that partition again: a claim looks at what is on record. A turn
//! that cannot pay ends with the error, and is tried again after a pause. Only a charge is owed that
//! is surely on record, and it is taken back once. Otherwise the process could take back an older
//! death, which the message did cause.
//!
//! `charge` writes charges, `owed` takes them back without a lease, `turn` has what a turn knows of
//! suspects, `session` what a concurrent session does.

mod charge;
mod owed;
mod session;
mod turn;

pub(super) use charge::{Charge, charge_from_pool, charge_in, must_charge, taken_back};
pub(crate) use owed::Owed;
pub(super) use owed::{may_be_done, owe, pay, take_back};
pub(super) use session::SessionQuarantine;
pub(super) use turn::TurnQuarantine;

use super::consumer::Consumer;
use crate::database::attempts::Attempts;
use crate::database::cursor::Refuse;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How long a suspect waits before it asks again whether it may go on alone.
pub(super) const SOLITUDE_PAUSE: Duration = Duration::from_millis(20);

/// The right to be the only suspect at work in this process.
pub(super) struct Solitude {
    _permit: OwnedSemaphorePermit,
}

impl Solitude {
    /// `None` while another suspect has it.
    fn take(consumer: &Consumer) -> Option<Self> {
        let permit = consumer.solitude.clone().try_acquire_owned().ok()?;
        Some(Self { _permit: permit })
    }
}

/// Which suspects a claim leaves alone that is made without the right to solitude.
pub(super) fn refused_beside_others(consumer: &Consumer) -> Refuse {
    match consumer.routes.fewest_attempts() {
        1 => Refuse::Suspect,
        _ => Refuse::ChargedSuspect,
    }
}

/// Whether a suspect with such a record must be the only one at work.
fn needs_solitude(consumer: &Consumer, attempts: Attempts) -> bool {
    attempts.deaths > 0 || consumer.routes.fewest_attempts() == 1
}
