//! A tool for an operator: it needs no running outbox, only the database.
//!
//! ```text
//! dead_letter_desk list [text]       pending letters, those whose reason has the text
//! dead_letter_desk show ID           one letter with its payload
//! dead_letter_desk requeue ID…       through the queue again, to the consumer that failed
//! dead_letter_desk requeue-all text  all whose reason has the text, 50 a second
//! dead_letter_desk discard ID…       given up
//! ```
//!
//! `DATABASE_URL` names the database. Without a command it makes three letters and tries the
//! commands on them.

mod demo;

use outbox::{
    DeadLetterFilter, DeadLetterId, DeadLetterScope, DeadLetterStatus, DeadLetters, RequeueReport,
};
use outbox_examples::connect;
use std::error::Error;
use std::time::SystemTime;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let example = connect().await?;
    outbox::migrate(&example.db).await?;
    let letters = DeadLetters::new(example.db.clone()).requeue_rate(50);
    if !words.is_empty() {
        return run(&letters, &words).await;
    }
    demo::make_letters(&example.db).await?;
    let ids: Vec<String> = (letters.list(&pending("")).await?.iter())
        .map(|letter| letter.id.to_string())
        .collect();
    let [first, .., last] = &ids[..] else {
        return Err("there are no letters".into());
    };
    for command in [
        vec!["list"],
        vec!["show", first],
        vec!["requeue-all", "printer"],
        vec!["discard", last],
        vec!["list"],
    ] {
        println!("\n$ dead_letter_desk {}", command.join(" "));
        run(&letters, &command).await?;
    }
    demo::check(&example.db).await
}

/// Pending letters, with a text in their reason.
fn pending(text: &str) -> DeadLetterFilter {
    let pending = DeadLetterFilter::new().status(DeadLetterStatus::Pending);
    pending.reason_contains(text)
}

fn ids(words: &[&str]) -> Result<DeadLetterScope, Box<dyn Error>> {
    let ids: Result<Vec<i64>, _> = words.iter().map(|word| word.parse()).collect();
    Ok(DeadLetterScope::letters(
        ids?.into_iter().map(DeadLetterId::from),
    ))
}

async fn run(letters: &DeadLetters, command: &[&str]) -> Result<(), Box<dyn Error>> {
    match command {
        ["list"] => list(letters, "").await,
        ["list", text] => list(letters, text).await,
        ["show", id] => show(letters, id.parse::<i64>()?.into()).await,
        ["requeue", words @ ..] => {
            report(&letters.requeue(ids(words)?).await?);
            Ok(())
        }
        ["requeue-all", text] => {
            report(&letters.requeue(pending(text)).await?);
            Ok(())
        }
        ["discard", words @ ..] => {
            let done = letters.discard(ids(words)?).await?;
            println!("{} discarded, {} not", done.changed, done.unchanged);
            Ok(())
        }
        _ => Err("commands: list, show, requeue, requeue-all, discard".into()),
    }
}

/// Page by page: a late page costs no more than the first.
async fn list(letters: &DeadLetters, text: &str) -> Result<(), Box<dyn Error>> {
    println!("{} pending", letters.count(&pending(text)).await?);
    let mut page = letters.list(&pending(text)).await?;
    while let Some(last) = page.last().map(|letter| letter.id) {
        for letter in &page {
            println!(
                "{:>6}  {:<10} {:<10} {:<16} {:>2} attempts  {}",
                letter.id,
                letter.queue,
                letter.consumer,
                letter.event_type,
                letter.attempts,
                letter.reason
            );
        }
        page = letters.list(&pending(text).after(last)).await?;
    }
    Ok(())
}

async fn show(letters: &DeadLetters, id: DeadLetterId) -> Result<(), Box<dyn Error>> {
    let letter = letters.get(id).await?.ok_or("there is no such letter")?;
    let ago = SystemTime::now().duration_since(letter.failed_at);
    println!("letter     {id} ({})", letter.status);
    println!("message    {} of queue {}", letter.message_id, letter.queue);
    println!("consumer   {}", letter.consumer);
    println!(
        "failed     {} s ago: {}",
        ago.unwrap_or_default().as_secs(),
        letter.reason
    );
    println!("headers    {:?}", letter.headers.iter().collect::<Vec<_>>());
    println!("payload    {}", String::from_utf8_lossy(&letter.payload));
    Ok(())
}

fn report(report: &RequeueReport) {
    for requeued in &report.requeued {
        println!(
            "letter {} goes again as message {}",
            requeued.letter, requeued.message
        );
    }
    for refused in &report.refused {
        println!("{refused}");
    }
    println!(
        "{} requeued, {} not",
        report.requeued.len(),
        report.refused.len()
    );
}
