//! Notifications between processes: there are none, processes find each other's work by polling.

use crate::queue::QueueId;
use sea_orm::{DatabaseConnection, DbErr};

pub(in crate::database) const CAN_NOTIFY: bool = false;

pub(in crate::database) async fn notify(
    _: &DatabaseConnection,
    _: &[QueueId],
) -> Result<(), DbErr> {
    Ok(())
}
