//! The connection on which a transactional consumer works on a partition.
//!
//! On PostgreSQL and MySQL a turn takes it before it claims anything, and keeps it from one
//! batch to the next. Nothing is charged before it is in hand, so a pool that has none left charges
//! nobody for a handler that never ran. The claim itself runs on this connection, so that a turn
//! never holds one connection while it waits for another.
//!
//! On SQLite the turn takes it after the claim, and after the charge of a suspect. If the pool has
//! none left then, the charge is taken back.

use super::claim::ClaimAnswer;
use super::consumer::Consumer;
use super::guard::LeaseClock;
use crate::database::cursor::{self, ClaimRequest};
use crate::database::transaction::{
    begin_for_handlers, claims_on_handlers_connection, commit_and_begin, release,
};
use sea_orm::DbErr;

/// Takes a connection, claims on it, and keeps it for the handlers, where the engine claims on it.
pub(super) async fn claim(
    consumer: &Consumer,
    request: ClaimRequest<'_>,
) -> Result<ClaimAnswer, DbErr> {
    if !claims_on_handlers_connection(&consumer.db)? {
        let clock = LeaseClock::start(consumer.lease);
        let claimed = cursor::claim(&consumer.db, &request).await?;
        let tx = None;
        return Ok(ClaimAnswer { claimed, clock, tx });
    }
    let tx = begin_for_handlers(&consumer.db).await?;
    let clock = LeaseClock::start(consumer.lease);
    let claimed = cursor::claim(&tx, &request).await?;
    let tx = if claimed.rows.is_empty() {
        release(tx).await;
        None
    } else {
        Some(commit_and_begin(tx).await?)
    };
    Ok(ClaimAnswer { claimed, clock, tx })
}
