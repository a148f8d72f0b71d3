//! Bodies that nobody refers to. A producer on a bare connection leaves one if it fails between its
//! two statements. On PostgreSQL these are one statement, so there are no orphans.
//!
//! No index leads from a body to its message. To find out whether there is one, a pass reads all of
//! `outbox_incoming` and `outbox_outgoing`. So it looks only at bodies older than an hour, thousands
//! at a time.

use super::contract;
use sea_orm::{DatabaseConnection, DbErr};

/// What a pass did.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    pub(crate) deleted: u64,
    /// Where the next pass begins; `None` if there is no older body beyond.
    pub(crate) next: Option<i64>,
}

/// Whether there may be any.
pub(crate) fn may_exist(db: &DatabaseConnection) -> bool {
    contract::may_have_orphans(db).unwrap_or(false)
}

/// Deletes the orphans among the bodies beyond an id, in the order of ids.
pub(crate) async fn delete_orphans(db: &DatabaseConnection, after: i64) -> Result<Orphans, DbErr> {
    contract::delete_orphans(db, after).await
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use super::*;
    use crate::database::aging;
    use crate::database::transaction::begin;
    use crate::{NewMessage, Partitions, Queue, enqueue};
    use std::time::Duration;

    #[tokio::test]
    async fn a_search_that_finds_nothing_does_not_wait_for_the_writer_of_sqlite() {
        let db = crate::testing::database().await;
        let queue = Queue::of("nobody", Partitions::of(1));
        let message = NewMessage::new("step", "k", "waits");
        enqueue(&db, &queue, message).await.expect("enqueue");
        aging::age(&db, Duration::from_secs(7_200))
            .await
            .expect("age");
        let writer = begin(&db).await.expect("the writer");
        let search = tokio::time::timeout(Duration::from_secs(10), delete_orphans(&db, 0));
        let found = search.await.expect("nobody is waited for").expect("found");
        assert_eq!(found.deleted, 0);
        writer.rollback().await.expect("rollback");
    }
}
