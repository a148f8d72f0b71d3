//! Waiting for vacuum, and what it has left.

use super::super::*;

/// Waits until vacuum was at work after this call. The outbox must serve the queue `marker`: vacuum
/// deletes the message that is sent there.
pub(crate) async fn a_pass_of_vacuum(db: &TestDb) {
    const MARKER: Queue = Queue::of("marker", Partitions::of(1));
    // The first may be deleted by a pass that was under way.
    for _ in 0..2 {
        let sent = NewMessage::new("marker", "m", "m");
        enqueue(db.connection(), &MARKER, sent).await.unwrap();
        eventually("a pass of vacuum", async || {
            bodies_of(db, "marker").await == 0
        })
        .await;
    }
}

/// How many messages of a type are still there.
pub(crate) async fn bodies_of(db: &TestDb, event_type: &str) -> i64 {
    db.number(&format!(
        "SELECT COUNT(*) FROM outbox_body WHERE event_type = '{event_type}'"
    ))
    .await
}
