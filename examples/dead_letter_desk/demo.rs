//! Work for the desk: makes three letters, and checks what became of them.

use outbox::prelude::*;
use outbox::{DeadLetterFilter, DeadLetterStatus, DeadLetters, OutboxHandle};
use outbox_examples::{eventually, say};
use std::error::Error;

#[outbox_event(queue = "example.labels", partitions = 1, name = "label.wanted")]
#[derive(Serialize, Deserialize)]
struct LabelWanted {
    parcel: i64,
    lines: u32,
}

/// Gives up at once, so that the demonstration is short.
#[outbox_handler(mode = leased, consumer = "printer", max_attempts = 1)]
async fn print(
    label: Message<LabelWanted>,
    State(paper): State<Paper>,
) -> Result<(), HandlerError> {
    if label.event.lines > 10 {
        return Err(HandlerError::reject("the label has too many lines"));
    }
    if paper == Paper::Out {
        return Err(HandlerError::retry("the printer is out of paper"));
    }
    say("printed", format!("parcel {}", label.event.parcel));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Paper {
    In,
    Out,
}

async fn start(db: &DatabaseConnection, paper: Paper) -> Result<OutboxHandle, outbox::StartError> {
    let builder = Outbox::builder(db.clone()).profile(OutboxProfile::low_latency());
    let only = builder.without_discovery().handler::<print>();
    only.state(paper).start().await
}

fn pending() -> DeadLetterFilter {
    let pending = DeadLetterFilter::new().status(DeadLetterStatus::Pending);
    pending.queue("example.labels")
}

/// Two labels that could not be printed, and one that never can.
///
/// # Errors
/// If the database refuses, or the letters do not appear.
pub(crate) async fn make_letters(db: &DatabaseConnection) -> Result<(), Box<dyn Error>> {
    let running = start(db, Paper::Out).await?;
    let letters = DeadLetters::new(db.clone());
    letters.discard(pending()).await?; // of an earlier run
    for (parcel, lines) in [(1, 3), (2, 4), (3, 99)] {
        LabelWanted { parcel, lines }.enqueue(db, parcel).await?;
    }
    let three = async || letters.count(&pending()).await.ok() == Some(3);
    eventually("three letters", three).await?;
    running.stop().await;
    Ok(())
}

/// The two that were sent again are printed now, and no letter is left.
///
/// # Errors
/// If they are not.
pub(crate) async fn check(db: &DatabaseConnection) -> Result<(), Box<dyn Error>> {
    println!();
    let running = start(db, Paper::In).await?;
    running.drained().await?;
    running.stop().await;
    match DeadLetters::new(db.clone()).count(&pending()).await? {
        0 => say(
            "checked",
            "the two sent again are printed, the third is given up",
        ),
        left => return Err(format!("{left} letters are left").into()),
    }
    Ok(())
}
