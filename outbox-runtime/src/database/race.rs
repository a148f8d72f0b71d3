//! Work that may be run again after it lost a race.

use crate::config::backoff;
use crate::database::errors::{ErrorClass, classify};
use sea_orm::DbErr;
use std::time::Duration;

const TRIES: u32 = 20;

/// Counts races lost by one piece of work.
#[derive(Default)]
pub(crate) struct Races(u32);

impl Races {
    /// Waits a little if the work may be run again; else gives the error back.
    pub(crate) async fn again(&mut self, error: DbErr) -> Result<(), DbErr> {
        if self.0 >= TRIES || classify(&error) != ErrorClass::Race {
            return Err(error);
        }
        self.0 += 1;
        let (base, max) = (Duration::from_millis(5), Duration::from_millis(200));
        tokio::time::sleep(backoff(base, max, self.0, true)).await;
        Ok(())
    }
}
