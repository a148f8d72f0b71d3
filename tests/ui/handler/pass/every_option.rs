use outbox::prelude::*;

#[outbox_event(queue = "orders", partitions = 4)]
#[derive(Serialize, Deserialize)]
pub struct OrderCreated(i64);

#[outbox_handler(
    max_attempts = 3,
    mode = leased,
    consumer = "mail.eu-1",
    from = earliest,
    batch = 10_000,
    concurrency = 1,
    retry(max = "1h", jitter = false, base = "1ms"),
    timeout = "55s",
    headroom = "5s",
    lease = "60s",
    handle = Mail,
    crate = ::outbox,
)]
async fn mail(_: OrderCreated) {}

// A short lease alone has a headroom that fits.
#[outbox_handler(mode = leased, consumer = "short", lease = "2ms", max_attempts = 1)]
async fn short(_: OrderCreated) {}

#[outbox_handler(mode = leased, consumer = "long", lease = "24h", timeout = "23h", retry())]
async fn long(_: OrderCreated) {}

// Exactly where it is too late is allowed.
#[outbox_handler(mode = leased, consumer = "edge", timeout = "28s", headroom = "2s")]
async fn edge(_: OrderCreated) {}

fn main() {
    assert_eq!(outbox::registry().handlers().len(), 4);
    let [mail] = outbox::handlers![Mail];
    assert_eq!(mail.consumer, "mail.eu-1");
    assert_eq!(mail.mode, outbox::Mode::Leased);
}
