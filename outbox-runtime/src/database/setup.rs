//! What makes a database a poor place for an outbox, said at start.

use super::contract;
use sea_orm::{DatabaseConnection, DbErr};

/// What should be different about the database.
pub(crate) async fn advice(db: &DatabaseConnection) -> Result<Vec<&'static str>, DbErr> {
    contract::setup_advice(db).await
}
