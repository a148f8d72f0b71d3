//! Events of several types in one queue: one cursor, one order.

use super::*;
use outbox_tests::every_engine;

outbox::queue!(Accounts = "accounts", partitions = 4);

#[outbox_event(queue = Accounts, name = "deposited")]
#[derive(Serialize, Deserialize)]
struct Deposited {
    n: i64,
}

#[outbox_event(queue = Accounts, name = "withdrawn")]
#[derive(Serialize, Deserialize)]
struct Withdrawn {
    n: i64,
}

#[outbox_handler(mode = leased, consumer = "each")]
async fn deposited(event: Deposited, State(journal): State<Journal>, ctx: &Ctx) {
    note(&journal, "each", ctx, format_args!("+{}", event.n));
}

#[outbox_handler(mode = leased, consumer = "each")]
async fn withdrawn(event: Withdrawn, State(journal): State<Journal>, ctx: &Ctx) {
    note(&journal, "each", ctx, format_args!("-{}", event.n));
}

/// A handler of batches next to one of single messages.
#[outbox_handler(mode = leased, consumer = "mixed")]
async fn deposits(events: Vec<Deposited>, State(journal): State<Journal>, ctx: &Ctx) {
    for event in events {
        note(&journal, "mixed", ctx, format_args!("+{}", event.n));
    }
}

#[outbox_handler(mode = leased, consumer = "mixed")]
async fn withdrawal(event: Withdrawn, State(journal): State<Journal>, ctx: &Ctx) {
    note(&journal, "mixed", ctx, format_args!("-{}", event.n));
}

#[outbox_handler(mode = transactional, consumer = "tx")]
async fn tx_deposits(
    mut batch: Batch<'_, Deposited>,
    State(journal): State<Journal>,
    ctx: &Ctx,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    while let Some(event) = batch.next_msg() {
        write(tx, "tx", event.n).await?;
        note(&journal, "tx", ctx, format_args!("+{}", event.n));
        batch.ack();
    }
    Ok(())
}

#[outbox_handler(mode = transactional, consumer = "tx")]
async fn tx_withdrawn(
    event: Withdrawn,
    State(journal): State<Journal>,
    ctx: &Ctx,
    tx: &DatabaseTransaction,
) -> Result<(), HandlerError> {
    write(tx, "tx", event.n).await?;
    note(&journal, "tx", ctx, format_args!("-{}", event.n));
    Ok(())
}

fn note(journal: &Journal, consumer: &str, ctx: &Ctx, what: impl Display) {
    let key = String::from_utf8_lossy(ctx.message().key()).into_owned();
    journal.note(format_args!("{consumer} {key} {what}"));
}

/// Runs of one, two and three of a type.
fn is_deposit(n: i64) -> bool {
    n % 7 < 3 || n % 7 == 5
}

#[every_engine]
async fn two_events_of_one_key_reach_their_handlers_in_order(db: &TestDb) {
    create_ledger(db).await;
    let journal = Journal::default();
    let handlers = outbox::handlers![
        deposited,
        withdrawn,
        deposits,
        withdrawal,
        tx_deposits,
        tx_withdrawn
    ];
    let running = start(db, handlers, &journal).await;
    for n in 0..60 {
        for key in ["ada", "grace"] {
            if is_deposit(n) {
                Deposited { n }.enqueue(db.connection(), key).await.unwrap();
            } else {
                Withdrawn { n }.enqueue(db.connection(), key).await.unwrap();
            }
        }
    }
    let sign = |n| if is_deposit(n) { '+' } else { '-' };
    let expected: Vec<_> = (0..60).map(|n| format!("{}{n}", sign(n))).collect();
    for consumer in ["each", "mixed", "tx"] {
        for key in ["ada", "grace"] {
            let prefix = format!("{consumer} {key} ");
            journal.reaches(&prefix, 60).await;
            assert_eq!(journal.of(&prefix), expected, "{prefix}");
        }
    }
    running.stop().await;
    let cursors = "SELECT COUNT(DISTINCT consumer) FROM outbox_cursor";
    assert_eq!(
        db.number(cursors).await,
        3,
        "a cursor for each consumer, not each handler"
    );
    assert_eq!(ledger(db, "tx").await.len(), 120);
}
