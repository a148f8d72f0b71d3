//! A webhook that its receiver can trust. The message's unique id is the idempotency key,
//! the same in every attempt. The answer's status decides: done, try again, or
//! reject. The receiver here is a local server that answers as real ones do.

use axum::extract::{Path, State as AxumState};
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing::post};
use outbox::prelude::*;
use outbox::{DeadLetterFilter, DeadLetterStatus};
use outbox_examples::{connect, eventually, prove, say};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[outbox_event(queue = "example.invoices", partitions = 4, name = "invoice.paid", key = invoice)]
#[derive(Debug, Serialize, Deserialize)]
struct InvoicePaid {
    invoice: i64,
}

/// Where the receiver is, and a client to reach it.
#[derive(Clone)]
struct Webhook {
    client: reqwest::Client,
    url: String,
}

#[outbox_handler(mode = leased, timeout = "5s", max_attempts = 8, retry(base = "100ms", max = "10s"))]
async fn tell(
    paid: Message<InvoicePaid>,
    State(webhook): State<Webhook>,
) -> Result<(), HandlerError> {
    let answer = webhook
        .client
        .post(format!("{}/invoices/{}", webhook.url, paid.event.invoice))
        .header("idempotency-key", paid.unique_id().to_string())
        .json(&paid.event)
        .send()
        .await?; // no answer: again, after a pause
    match answer.status() {
        status if status.is_success() => Ok(()),
        // The receiver says when to try again: its pause is used instead of the policy's.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let header = answer.headers().get("retry-after");
            let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok());
            let pause = Duration::from_secs(seconds.unwrap_or(1));
            Err(HandlerError::retry_after(pause, answer.status()))
        }
        status if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            Err(HandlerError::retry(status))
        }
        // Permanent failure: the message becomes a dead letter without another attempt.
        status => Err(HandlerError::reject(format!("the receiver says {status}"))),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let example = connect().await?;
    outbox::migrate(&example.db).await?;
    let receiver = Receiver::default();
    let running = Outbox::builder(example.db.clone())
        .profile(OutboxProfile::low_latency())
        .state(Webhook {
            client: reqwest::Client::new(),
            url: receiver.serve().await?,
        })
        .start()
        .await?;
    let pending = DeadLetterFilter::new()
        .queue("example.invoices")
        .status(DeadLetterStatus::Pending);
    let letters = running.outbox().dead_letters();
    letters.discard(pending.clone()).await?; // of an earlier run

    for invoice in [FINE, BUSY, FORGETFUL, UNKNOWN] {
        InvoicePaid { invoice }.emit(&example.db).await?;
    }
    eventually("every answer and a dead letter", async || {
        let twice = [BUSY, FORGETFUL]
            .iter()
            .all(|id| receiver.requests(*id) == 2);
        twice && letters.count(&pending).await.ok() == Some(1)
    })
    .await?;
    running.stop().await;
    let letter = letters.list(&pending).await?.pop().ok_or("no letter")?;
    prove(
        "dead letter",
        &letter.reason,
        "what can never succeed is set aside at once",
    );
    if receiver.booked() != BTreeMap::from([(FINE, 1), (BUSY, 1), (FORGETFUL, 1)]) {
        return Err(format!("booked: {:?}", receiver.booked()).into());
    }
    say(
        "checked",
        "each invoice was booked once, however often it was sent",
    );
    Ok(())
}

const FINE: i64 = 1;
/// The receiver is busy the first time, and says for how long.
const BUSY: i64 = 2;
/// The receiver books it, and fails before it has said so.
const FORGETFUL: i64 = 3;
/// The receiver knows no such invoice.
const UNKNOWN: i64 = 4;

/// Another company's server: what it booked, how often, and under which keys.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Books>>);

#[derive(Default)]
struct Books {
    requests: BTreeMap<i64, u32>,
    keys: BTreeMap<String, i64>,
}

impl Receiver {
    /// Serves on a free port; returns where.
    async fn serve(&self) -> std::io::Result<String> {
        let routes = Router::new().route("/invoices/{invoice}", post(receive));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let routes = routes.with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(url)
    }

    fn books(&self) -> std::sync::MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often it was told of an invoice.
    fn requests(&self, invoice: i64) -> u32 {
        let books = self.books();
        books.requests.get(&invoice).copied().unwrap_or_default()
    }

    /// How often each invoice was booked.
    fn booked(&self) -> BTreeMap<i64, u32> {
        let mut booked = BTreeMap::new();
        for invoice in self.books().keys.values() {
            *booked.entry(*invoice).or_default() += 1;
        }
        booked
    }
}

async fn receive(
    AxumState(receiver): AxumState<Receiver>,
    Path(invoice): Path<i64>,
    headers: HeaderMap,
) -> (StatusCode, [(&'static str, &'static str); 1]) {
    let mut books = receiver.books();
    let requests = books.requests.entry(invoice).or_default();
    *requests += 1;
    let first = *requests == 1;
    let (status, proof) = match invoice {
        UNKNOWN => (StatusCode::NOT_FOUND, "4xx: rejected"),
        BUSY if first => (
            StatusCode::SERVICE_UNAVAILABLE,
            "retry-after: it waits that long",
        ),
        _ => {
            let key = headers.get("idempotency-key");
            let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
            books.keys.insert(key.to_owned(), invoice);
            match (invoice, first) {
                (FORGETFUL, true) => (StatusCode::BAD_GATEWAY, "5xx: tried again"),
                (FORGETFUL, false) => (StatusCode::OK, "the same key: nothing is booked twice"),
                _ => (StatusCode::OK, "2xx: done"),
            }
        }
    };
    prove(
        "received",
        format!("invoice {invoice}, answered {}", status.as_u16()),
        proof,
    );
    (status, [("retry-after", "1")])
}
