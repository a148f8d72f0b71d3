//! On PostgreSQL a queue's partitions are found where they were last.

use super::*;
use outbox_tests::{Engine, run};
use sea_orm::{ConnectionTrait, TransactionTrait};

#[test]
fn a_pass_whose_partition_moved_under_it_is_undone_and_made_again() {
    run(Engine::Postgres, true, |db| {
        Box::pin(async move {
            let seen = Seen::default();
            let running = start_eager(db, &seen).await;
            for n in 0..3 {
                commit(db.connection(), "k", n).await;
                seen.reaches(n + 1).await;
            }
            // The pass has taken the message and waits for the partition; what it then
            // finds in that place is not there any more.
            let other = db.connect().await.begin().await.unwrap();
            other
                .execute_unprepared("SELECT 1 FROM outbox_partition FOR UPDATE")
                .await
                .unwrap();
            commit(db.connection(), "k", 3).await;
            until_blocked(db).await;
            other
                .execute_unprepared("UPDATE outbox_partition SET sequence = sequence")
                .await
                .unwrap();
            other.commit().await.unwrap();
            seen.reaches(4).await;
            let given = db.number("SELECT SUM(sequence)::bigint FROM outbox_partition");
            assert_eq!(given.await, 4, "no number is skipped or given twice");
            drained(db).await;
            running.stop().await;
            assert_eq!(seen.by_key()["k"], [0, 1, 2, 3]);
        })
    });
}
