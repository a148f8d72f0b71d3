//! One event, two consumers, each with its own progress, retries and dead letters.
//! While mail is down the statistics go on, and nothing has to be sent twice.
//! Payloads are stored once, however many consumers there are.

use outbox::prelude::*;
use outbox::{ConsumerStats, OutboxHandle};
use outbox_examples::{connect, count, eventually, say, table};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[outbox_event(queue = "example.users", partitions = 2, name = "user.registered", key = user_id)]
#[derive(Serialize, Deserialize)]
struct UserRegistered {
    user_id: i64,
}

/// A mail server that can be down.
#[derive(Clone, Default)]
struct MailServer {
    up: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
}

/// Sends mail, a side effect outside this database, so it is leased: at least once.
#[outbox_handler(mode = leased, consumer = "welcome_mail", retry(base = "100ms", max = "200ms"), max_attempts = 100)]
async fn welcome(
    user: UserRegistered,
    State(server): State<MailServer>,
) -> Result<(), HandlerError> {
    if !server.up.load(Ordering::SeqCst) {
        return Err(HandlerError::retry("the mail server is down"));
    }
    server.sent.fetch_add(1, Ordering::SeqCst);
    say("mailed", format!("user {}", user.user_id));
    Ok(())
}

/// Writes to the same database, so it is transactional: exactly once.
#[outbox_handler(mode = transactional, consumer = "statistics")]
async fn register(user: UserRegistered, tx: &DatabaseTransaction) -> Result<(), HandlerError> {
    let row = format!("INSERT INTO example_registration VALUES ({})", user.user_id);
    tx.execute_unprepared(&row).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let example = connect().await?;
    let db = &example.db;
    outbox::migrate(db).await?;
    table(db, "example_registration", "user_id BIGINT").await?;
    let server = MailServer::default();
    let running = Outbox::builder(db.clone())
        .profile(OutboxProfile::low_latency())
        .state(server.clone())
        .start()
        .await?;

    let users = (1..=6).map(|user_id| (user_id, UserRegistered { user_id }));
    UserRegistered::enqueue_all(db, users).await?;
    say("committed", "six registrations; the mail server is down");
    eventually("six rows", async || {
        count(db, "example_registration").await.ok() == Some(6)
    })
    .await?;
    let (mail, statistics) = (
        lag(&running, "welcome_mail").await?,
        lag(&running, "statistics"),
    );
    say(
        "statistics",
        format!("has {} to go, mail {mail}", statistics.await?),
    );
    if mail != 6 {
        return Err("mail cannot have been sent".into());
    }

    server.up.store(true, Ordering::SeqCst);
    say("repaired", "the mail server is up again");
    eventually("six mails", async || {
        lag(&running, "welcome_mail").await.ok() == Some(0)
    })
    .await?;
    running.stop().await;
    if server.sent.load(Ordering::SeqCst) != 6 || count(db, "example_registration").await? != 6 {
        return Err("six mails and six rows, or something is wrong".into());
    }
    say(
        "checked",
        "six mails, six rows: neither consumer waited for the other",
    );
    Ok(())
}

/// How many messages a consumer has yet to handle.
async fn lag(running: &OutboxHandle, consumer: &str) -> Result<u64, Box<dyn Error>> {
    let stats = running.stats().await?;
    let consumers = stats.queues.iter().flat_map(|queue| &queue.consumers);
    let is_it = |stats: &&ConsumerStats| stats.name == consumer;
    let incoming: u64 = stats.queues.iter().map(|queue| queue.incoming).sum();
    Ok(incoming + consumers.filter(is_it).map(|stats| stats.lag).sum::<u64>())
}
