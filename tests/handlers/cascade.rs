//! Events that handlers enqueue through their transaction.

use super::*;
use outbox_tests::every_engine;

#[outbox_event(queue = "requests", partitions = 2, name = "requested", key = n)]
#[derive(Serialize, Deserialize)]
struct Requested {
    n: i64,
}

#[outbox_event(queue = "grants", partitions = 2, name = "granted", key = n)]
#[derive(Serialize, Deserialize)]
struct Granted {
    n: i64,
}

/// Grants what is even at once, what is odd at the second attempt, and 13 never.
#[outbox_handler(mode = transactional, retry(base = "1ms", max = "1ms"))]
async fn grant(
    Message { event, .. }: Message<Requested>,
    tx: &DatabaseTransaction,
    ctx: &Ctx,
) -> Result<(), HandlerError> {
    let n = event.n;
    Granted { n }.emit(tx).await?;
    if n == 13 {
        return Err(HandlerError::reject("never"));
    }
    if n % 2 == 1 && ctx.message().attempts() == 0 {
        return Err(HandlerError::retry("not yet"));
    }
    Ok(())
}

#[outbox_handler(mode = leased)]
async fn granted(event: Granted, State(journal): State<Journal>) {
    journal.note(format_args!("granted {}", event.n));
}

#[every_engine]
async fn an_event_enqueued_in_a_handlers_transaction_commits_with_the_acknowledgement(db: &TestDb) {
    let journal = Journal::default();
    let running = start(db, outbox::handlers![grant, granted], &journal).await;
    let requests: Vec<_> = (1..=20).map(|n| (n, Requested { n })).collect();
    Requested::enqueue_all(db.connection(), requests)
        .await
        .unwrap();
    journal.reaches("granted", 19).await;
    eventually("a dead letter", async || {
        !letters(db, "default", "reason").await.is_empty()
    })
    .await;
    running.stop().await;
    let mut granted: Vec<i64> = journal
        .of("granted ")
        .iter()
        .map(|n| n.parse().unwrap())
        .collect();
    granted.sort_unstable();
    let expected: Vec<_> = (1..=20).filter(|n| *n != 13).collect();
    assert_eq!(granted, expected);
    // Leased handlers may see a message twice, but there are no more messages.
    let numbered = "SELECT CAST(SUM(p.sequence) AS SIGNED) FROM outbox_partition p \
        JOIN outbox_queue q ON q.id = p.queue_id WHERE q.name = 'grants'";
    let numbered = match db.engine() {
        outbox_tests::Engine::MySql => numbered.to_owned(),
        _ => numbered.replace("SIGNED", "BIGINT"),
    };
    assert_eq!(db.number(&numbered).await, 19);
}
