//! A process, a server or a handler may die at any moment: nothing committed is lost, and nothing
//! transactional happens twice. A message that kills its process is quarantined and becomes the
//! only dead letter.

mod deadly_messages;
mod durability;
mod killed_processes;
mod owed_charges;
mod quarantine;
mod reused_sequence_numbers;
mod server_crash;

use super::*;
