//! What makes a poor place for an outbox, said at start: nothing here.

use sea_orm::DatabaseConnection;

pub(in crate::database) async fn advice(_: &DatabaseConnection) -> Vec<&'static str> {
    Vec::new()
}
