//! The values that a user sets. They are checked when the outbox starts; there is no other logic
//! here.

mod lease;
mod pace;
mod profile;
mod retry;
mod tuning;

pub use lease::LeaseConfig;
pub(crate) use pace::Pace;
pub use profile::OutboxProfile;
pub use retry::RetryPolicy;
pub(crate) use retry::{LONGEST_DELAY, backoff};
pub use tuning::WorkerTuning;
