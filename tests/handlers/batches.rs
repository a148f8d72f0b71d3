//! Many messages at a time.

use super::*;
use outbox_tests::every_engine;

#[outbox_event(queue = "batches", partitions = 2, name = "step")]
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Step {
    n: i64,
}

/// No handler can handle this one.
const POISON: i64 = 13;

#[outbox_handler(mode = leased, consumer = "vec", batch = 10, max_attempts = 1)]
async fn vec(steps: Vec<Step>, State(journal): State<Journal>) -> Result<(), String> {
    if steps.iter().any(|step| step.n == POISON) {
        return Err(format!("one of {} is bad", steps.len()));
    }
    journal.note(format_args!("vec size {}", steps.len()));
    for step in steps {
        journal.note(format_args!("vec {}", step.n));
    }
    Ok(())
}

#[outbox_handler(mode = leased, consumer = "vec_rejecting", batch = 10)]
async fn vec_rejecting(
    messages: Vec<Message<Step>>,
    State(journal): State<Journal>,
    ctx: &Ctx,
) -> HandlerResult {
    assert_eq!(ctx.message().id(), messages[0].id());
    if messages.iter().any(|message| message.event.n == POISON) {
        return HandlerResult::reject(format_args!("one of {} is bad", messages.len()));
    }
    for message in messages {
        journal.note(format_args!("vec_rejecting {}", message.event.n));
    }
    HandlerResult::Success
}

#[outbox_handler(mode = leased, consumer = "walk", batch = 10)]
async fn walk(mut batch: Batch<'_, Step>, State(journal): State<Journal>) {
    while let Some(step) = batch.next_msg() {
        if step.n == POISON {
            batch.reject("it is bad");
        } else {
            journal.note(format_args!("walk {}", step.n));
            batch.ack();
        }
    }
}

#[outbox_handler(mode = transactional, consumer = "tx_vec", batch = 10)]
async fn tx_vec(steps: Vec<Message<Step>>, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    for step in &steps {
        write(tx, "tx_vec", step.event.n).await?;
    }
    if steps.iter().any(|step| step.event.n == POISON) {
        return Err(HandlerError::reject(format_args!("one of {}", steps.len())));
    }
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "tx_walk", batch = 10)]
async fn tx_walk(
    mut batch: Batch<'_, Message<Step>>,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    while let Some(message) = batch.next_msg() {
        let n = message.event.n;
        write(tx, "tx_walk", n).await?;
        if n == POISON {
            batch.reject("it is bad");
        } else {
            batch.ack();
        }
    }
    Ok(())
}

async fn enqueue_steps(db: &TestDb) {
    let steps: Vec<_> = (1..=40).map(|n| ("key", Step { n })).collect();
    Step::enqueue_all(db.connection(), steps).await.unwrap();
}

fn without_poison() -> Vec<i64> {
    (1..=40).filter(|n| *n != POISON).collect()
}

#[every_engine]
async fn leased_batches_come_in_order_and_only_the_bad_message_becomes_a_dead_letter(db: &TestDb) {
    let journal = Journal::default();
    enqueue_steps(db).await;
    let running = start(db, outbox::handlers![vec, vec_rejecting, walk], &journal).await;
    let good: Vec<_> = without_poison().iter().map(i64::to_string).collect();
    for (consumer, reason) in [
        ("vec", "one of 1 is bad"),
        ("vec_rejecting", "one of 1 is bad"),
        ("walk", "it is bad"),
    ] {
        eventually(consumer, async || {
            journal
                .of(&format!("{consumer} "))
                .contains(&"40".to_owned())
        })
        .await;
        eventually("a dead letter", async || {
            !letters(db, consumer, "reason").await.is_empty()
        })
        .await;
        let mut seen = journal.of(&format!("{consumer} "));
        seen.retain(|note| !note.starts_with("size"));
        assert_eq!(seen, good, "{consumer}");
        assert_eq!(
            letters(db, consumer, "reason").await,
            [reason],
            "{consumer}"
        );
        assert_eq!(letters(db, consumer, "attempts").await, ["1"], "{consumer}");
    }
    running.stop().await;
    assert_eq!(
        journal.of("vec size ")[0],
        "10",
        "batches are as large as they may be"
    );
}

#[every_engine]
async fn transactional_batches_take_effect_once_without_the_bad_message(db: &TestDb) {
    create_ledger(db).await;
    enqueue_steps(db).await;
    let running = start(db, outbox::handlers![tx_vec, tx_walk], &Journal::default()).await;
    for (consumer, reason) in [("tx_vec", "one of 1"), ("tx_walk", "it is bad")] {
        eventually(consumer, async || ledger(db, consumer).await.len() >= 39).await;
        assert_eq!(
            letters(db, consumer, "reason").await,
            [reason],
            "{consumer}"
        );
    }
    running.stop().await;
    for consumer in ["tx_vec", "tx_walk"] {
        assert_eq!(ledger(db, consumer).await, without_poison(), "{consumer}");
    }
}
