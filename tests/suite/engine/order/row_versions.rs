//! On PostgreSQL a sequencer remembers the row version of each partition, and finds the row there.

use super::*;
use outbox_tests::{Engine, PrivateServer, postgres, run_at};
use sea_orm::{ConnectionTrait, TransactionTrait};

#[postgres]
async fn a_pass_follows_its_partition_to_a_new_row_version(db: &TestDb) {
    let seen = Seen::default();
    let running = start_eager(db, &seen).await;
    for n in 0..3 {
        commit(db.connection(), "k", n).await;
        seen.reaches(n + 1).await;
    }
    // The pass has taken the message and waits for the partition; the row version that it then
    // locks is no longer the newest.
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
}

#[test]
fn competing_sequencers_raise_no_error_in_the_server() {
    let server = PrivateServer::start(Engine::Postgres);
    let url = server.url().to_owned();
    run_at(Engine::Postgres, &url, |db| {
        Box::pin(async move {
            let seen = Seen::default();
            let running = start_eager(db, &seen).await;
            commit(db.connection(), "k", 0).await;
            seen.reaches(1).await;
            // Each time the pass has read the partition, waits for it, and finds that it was
            // changed meanwhile.
            for n in 1..20 {
                let other = db.connect().await.begin().await.unwrap();
                other
                    .execute_unprepared("SELECT 1 FROM outbox_partition FOR UPDATE")
                    .await
                    .unwrap();
                commit(db.connection(), "k", n).await;
                until_blocked(db).await;
                other
                    .execute_unprepared("UPDATE outbox_partition SET sequence = sequence")
                    .await
                    .unwrap();
                other.commit().await.unwrap();
                seen.reaches(n + 1).await;
            }
            // Then several processes, whose passes come between each other's read and lock.
            let others = [start_eager(db, &seen).await, start_eager(db, &seen).await];
            let sending = (0..8).map(|key| async move {
                for n in 0..100 {
                    commit(db.connection(), &format!("key{key}"), n).await;
                }
            });
            futures_util::future::join_all(sending).await;
            seen.reaches(820).await;
            drained(db).await;
            for outbox in others {
                outbox.stop().await;
            }
            running.stop().await;
            for (key, numbers) in seen.by_key() {
                assert!(numbers.is_sorted(), "{key}: {numbers:?}");
            }
            let given = db.number("SELECT SUM(sequence)::bigint FROM outbox_partition");
            assert_eq!(given.await, 820, "no number is skipped or given twice");
            let log = server.log();
            let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
            assert!(errors.is_empty(), "{errors:#?}");
        })
    });
}

#[postgres]
async fn a_missing_partition_is_named_in_the_log_and_its_messages_stay(db: &TestDb) {
    crate::captured_log::listen();
    let queue = Queue::of("logged-missing", Partitions::of(2));
    let seen = Seen::default();
    let running = outbox_runtime::Outbox::builder(db.connect().await)
        .queue(queue.name(), queue.partitions())
        .leased(seen.clone())
        .start()
        .await
        .unwrap();
    let missing = queue.id() | 1;
    db.execute(&format!(
        "DELETE FROM outbox_partition WHERE id = {missing}"
    ))
    .await;
    for partition in 0..2 {
        let sent = message("k", 0).to_partition(partition);
        enqueue(db.connection(), &queue, sent).await.unwrap();
    }
    eventually("a word in the log", async || {
        !crate::captured_log::lines("logged-missing", &missing.to_string()).is_empty()
    })
    .await;
    db.execute(&format!(
        "INSERT INTO outbox_partition (id, queue_id, number) \
         VALUES ({missing}, {}, 1)",
        queue.id()
    ))
    .await;
    seen.reaches(2).await;
    running.stop().await;
}
