//! Many keys of a partition at a time, each key in order: `concurrency = 8`. A slow
//! or failing customer holds up only the orders of that customer. Without it the whole
//! partition would wait.

use outbox::prelude::*;
use outbox_examples::{connect, eventually, say};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// One partition, so that every message is behind all earlier ones.
#[outbox_event(queue = "example.steps", partitions = 1, name = "step.taken", key = customer)]
#[derive(Serialize, Deserialize)]
struct StepTaken {
    customer: String,
    step: u32,
}

/// Which customer took which step, in the order in which the steps were handled.
#[derive(Clone, Default)]
struct Diary(Arc<Mutex<Vec<(String, u32)>>>);

impl Diary {
    fn write(&self, customer: &str, step: u32) {
        let mut steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.push((customer.to_owned(), step));
    }

    fn steps(&self) -> Vec<(String, u32)> {
        let steps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        steps.clone()
    }

    fn steps_of(&self, customer: &str) -> Vec<u32> {
        let of_customer = |(name, step)| (name == customer).then_some(step);
        self.steps().into_iter().filter_map(of_customer).collect()
    }
}

#[outbox_handler(mode = leased, concurrency = 8, retry(base = "50ms", max = "50ms"), max_attempts = 200)]
async fn follow(step: Message<StepTaken>, State(diary): State<Diary>) -> Result<(), HandlerError> {
    let StepTaken {
        customer,
        step: number,
    } = &step.event;
    if customer == "mallory" && diary.steps().len() < 9 {
        let attempt = step.attempts() + 1;
        say(
            "failed",
            format!("mallory's step {number}, attempt {attempt}; her others wait"),
        );
        return Err(HandlerError::retry("mallory is the last to get up"));
    }
    tokio::time::sleep(Duration::from_millis(20)).await; // a call of another service
    say("handled", format!("{customer}'s step {number}"));
    diary.write(customer, *number);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let example = connect().await?;
    outbox::migrate(&example.db).await?;
    let diary = Diary::default();
    let running = Outbox::builder(example.db.clone())
        .profile(OutboxProfile::low_latency())
        .state(diary.clone())
        .start()
        .await?;

    let customers = ["mallory", "ada", "grace", "edsger"];
    let tx = example.db.begin().await?;
    for step in 1..=3 {
        for customer in customers {
            let customer = customer.to_owned();
            StepTaken { customer, step }.emit(&tx).await?;
        }
    }
    tx.commit().await?;
    say(
        "committed",
        "three steps of each of four customers, in turns",
    );
    eventually("twelve steps", async || diary.steps().len() == 12).await?;
    running.stop().await;

    for customer in customers {
        if diary.steps_of(customer) != [1, 2, 3] {
            return Err(format!("{customer}'s steps are out of order").into());
        }
    }
    // Mallory fails until all others are done. If they waited for her, no step would be handled.
    say(
        "checked",
        "every customer in order; no other waited for mallory",
    );
    Ok(())
}
