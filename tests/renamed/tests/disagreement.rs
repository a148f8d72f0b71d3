//! Two events that disagree on a queue are found before anything is registered.
//! A program of its own: they would spoil every other test.

use bus::prelude::*;
use bus::sea_orm::Database;

/// The queue has two partitions here ...
#[outbox_event(queue = "stock", partitions = 2, crate = bus)]
#[derive(Serialize, Deserialize)]
struct Arrived;

/// ... and four here.
#[outbox_event(queue = "stock", partitions = 4, crate = bus)]
#[derive(Serialize, Deserialize)]
struct Left;

#[tokio::test]
async fn events_that_disagree_on_their_queue_are_named_with_their_places() {
    let db = Database::connect("sqlite::memory:").await.unwrap();
    bus::migrate(&db).await.unwrap();
    let error = bus::register(&db).await.unwrap_err().to_string();
    for part in [
        "queue `stock`",
        "2 partitions",
        "4 ",
        "disagreement::Arrived",
        "disagreement::Left",
        concat!(file!(), ":8"),
        concat!(file!(), ":13"),
    ] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}
