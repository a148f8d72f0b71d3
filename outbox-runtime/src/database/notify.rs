//! Notifications between processes, where the engine has them.

use super::contract;
use crate::queue::QueueId;
use sea_orm::{DatabaseConnection, DbErr};

/// What a listener heard.
pub(crate) enum Heard {
    /// Something was enqueued to these queues.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(dead_code, reason = "nobody says it")
    )]
    Queues(Vec<QueueId>),
    /// The connection was lost and is there again. Something may have been said meanwhile.
    Reconnected,
}

/// Whether the engine has notifications.
pub(crate) fn can_notify(db: &DatabaseConnection) -> bool {
    contract::can_notify(db).unwrap_or(false)
}

/// Tells other processes that something was enqueued to these queues. So many at once: see
/// [`QUEUES_AT_ONCE`].
pub(crate) async fn notify(db: &DatabaseConnection, queues: &[QueueId]) -> Result<(), DbErr> {
    contract::notify(db, queues).await
}

/// Queues in one notification: PostgreSQL refuses 8,000 bytes, and an id has up to 20 characters and
/// a comma.
pub(crate) const QUEUES_AT_ONCE: usize = 300;

/// Hears what other processes say, on a connection of its own.
pub(crate) struct Listener(super::postgres::notify::Listener);

impl Listener {
    /// Begins to listen.
    pub(crate) async fn connect(db: &DatabaseConnection) -> Result<Self, DbErr> {
        super::postgres::notify::Listener::connect(db)
            .await
            .map(Self)
    }

    /// Waits for the next notification.
    pub(crate) async fn hear(&mut self) -> Result<Heard, DbErr> {
        self.0.hear().await
    }
}
