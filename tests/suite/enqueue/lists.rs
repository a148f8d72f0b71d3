//! Many events at once: checked as a whole, written in chunks, ids in order.

use super::*;
use outbox::{EnqueueErrorKind, EnqueueOptions, NewMessage, Queue, Slot, enqueue_batch};
use outbox_tests::{every_engine, mysql, postgres};
use sea_orm::{ConnectOptions, Database};

fn orders(range: std::ops::Range<i64>) -> impl Iterator<Item = (i64, OrderCreated)> {
    range.map(|order| (order, OrderCreated::new(order)))
}

/// Ids are in order and each names its own event.
async fn assert_ids_name_their_orders(db: &TestDb, ids: &[OutboxMessageId], first: i64) {
    assert!(ids.is_sorted());
    let by_id: std::collections::HashMap<i64, i64> =
        stored(db).await.iter().map(|m| (m.id, m.order())).collect();
    for (id, order) in ids.iter().zip(first..) {
        assert_eq!(by_id.get(&id.get()), Some(&order), "id {id}");
    }
}

#[every_engine]
async fn an_empty_list_is_fine(db: &TestDb) {
    let none: [(i64, OrderCreated); 0] = [];
    assert!(
        OrderCreated::enqueue_all(db.connection(), none)
            .await
            .unwrap()
            .is_empty()
    );
    assert_eq!(bodies(db).await, 0);
}

#[every_engine]
async fn ids_come_back_in_the_order_of_the_list(db: &TestDb) {
    let ids = OrderCreated::enqueue_all(db.connection(), orders(0..2_500))
        .await
        .unwrap();
    assert_eq!(ids.len(), 2_500);
    assert_ids_name_their_orders(db, &ids, 0).await;
    // By key, each in its own slot.
    for message in stored(db).await {
        assert_eq!(
            message.slot.unsigned_abs(),
            Slot::of_key(&message.key).get()
        );
    }
}

#[every_engine]
async fn borrowed_events_can_be_listed(db: &TestDb) {
    let events = [OrderCreated::new(1), OrderCreated::new(2)];
    OrderCreated::enqueue_all(db.connection(), events.iter().map(|e| (e.order_id, e)))
        .await
        .unwrap();
    assert_eq!(incoming(db).await, 2);
}

#[every_engine]
async fn types_and_headers_of_a_list_stay_with_their_messages(db: &TestDb) {
    const QUEUE: Queue = Queue::of("mixed", Partitions::of(4));
    let lists: [&[(&str, Option<&str>)]; 4] = [
        &[("placed", None), ("placed", None), ("placed", None)],
        &[("placed", None), ("placed", Some("a")), ("placed", None)],
        &[("placed", None), ("placed", None), ("paid", None)],
        &[("paid", Some("b")), ("placed", None), ("paid", Some("c"))],
    ];
    for list in lists {
        let messages = list.iter().zip(0_i64..).map(|((event_type, header), key)| {
            let message = NewMessage::new(*event_type, key, "{}");
            match header {
                Some(value) => message.with(EnqueueOptions::new().header("from", *value)),
                None => message,
            }
        });
        enqueue_batch(db.connection(), &QUEUE, messages)
            .await
            .unwrap();
    }
    let found = stored(db).await;
    let found = found.iter().map(|m| (&*m.event_type, m.headers.clone()));
    let sent = lists.concat().into_iter().map(|(event_type, header)| {
        (
            event_type,
            header.map(|value| format!(r#"{{"from":"{value}"}}"#)),
        )
    });
    assert_eq!(found.collect::<Vec<_>>(), sent.collect::<Vec<_>>());
}

#[every_engine]
async fn one_bad_event_in_a_list_refuses_the_whole_list(db: &TestDb) {
    let mut list: Vec<_> = orders(0..2_000).collect();
    list[1_234].1.note = "x".repeat(64 * 1024);
    let error = OrderCreated::enqueue_all(db.connection(), list)
        .await
        .unwrap_err();
    assert_eq!(error.index(), Some(1_234));
    assert!(matches!(
        error.kind(),
        EnqueueErrorKind::PayloadTooLarge { .. }
    ));
    assert!(error.to_string().contains("number 1234"), "{error}");
    assert_eq!(bodies(db).await, 0);
}

#[every_engine]
async fn large_payloads_are_split_into_statements_the_server_takes(db: &TestDb) {
    const QUEUE: Queue = Queue::of("large", Partitions::of(1));
    // 38 MiB: several chunks, except on PostgreSQL, and more than MariaDB's largest packet.
    let message = |i: u8| NewMessage::new("large", 0, vec![i; 64 * 1024]);
    let messages = (0..=250).cycle().take(600).map(message);
    let ids = enqueue_batch(db.connection(), &QUEUE, messages)
        .await
        .unwrap();
    let found = stored(db).await;
    assert_eq!(found.len(), 600);
    for (i, (id, message)) in ids.iter().zip(&found).enumerate() {
        assert_eq!(id.get(), message.id);
        assert_eq!(usize::from(message.payload[0]), i % 251);
    }
}

#[every_engine]
async fn one_transaction_takes_a_hundred_thousand_events(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    let ids = OrderCreated::enqueue_all(&tx, orders(0..100_000))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(ids.len(), 100_000);
    assert!(ids.is_sorted());
    assert_eq!((bodies(db).await, incoming(db).await), (100_000, 100_000));
    let found = db
        .column("SELECT id FROM outbox_incoming ORDER BY id")
        .await;
    assert!(
        found
            .into_iter()
            .eq(ids.into_iter().map(OutboxMessageId::get))
    );
}

/// Several writers that step over each other's ids, as in a cluster.
#[mysql]
async fn with_a_step_of_ten_every_id_still_names_its_event(db: &TestDb) {
    let writer = |offset: i64| async move {
        // One connection, so that the session's step holds for all statements.
        let mut options = ConnectOptions::new(db.url());
        options.max_connections(1).sqlx_logging(false);
        let own = Database::connect(options).await.unwrap();
        let step = format!(
            "SET SESSION auto_increment_increment = 10, SESSION auto_increment_offset = {offset}"
        );
        own.execute_unprepared(&step).await.unwrap();
        let mut written = Vec::new();
        for round in 0..20 {
            let first = offset * 1_000_000 + round * 100;
            let ids = if round % 2 == 0 {
                OrderCreated::enqueue_all(&own, orders(first..first + 50))
                    .await
                    .unwrap()
            } else {
                let tx = own.begin().await.unwrap();
                let ids = OrderCreated::enqueue_all(&tx, orders(first..first + 50))
                    .await
                    .unwrap();
                tx.commit().await.unwrap();
                ids
            };
            written.push((first, ids));
        }
        written
    };
    let (a, b, c) = tokio::join!(writer(1), writer(2), writer(7));
    assert_eq!(incoming(db).await, 3_000);
    for (first, ids) in a.into_iter().chain(b).chain(c) {
        assert_ids_name_their_orders(db, &ids, first).await;
    }
}

/// If the step that was read is not the step that was used, nothing is enqueued
/// rather than the wrong thing.
#[mysql]
async fn ids_that_turn_out_wrong_enqueue_nothing(db: &TestDb) {
    let mut options = ConnectOptions::new(db.url());
    options
        .max_connections(2)
        .min_connections(2)
        .sqlx_logging(false);
    let pool = Database::connect(options).await.unwrap();
    // Only one of the two connections of the pool has the odd step.
    let odd = pool.begin().await.unwrap();
    odd.execute_unprepared("SET SESSION auto_increment_increment = 10")
        .await
        .unwrap();
    odd.commit().await.unwrap();
    let mut refused = 0;
    for round in 0..40 {
        let list = orders(round * 100..round * 100 + 3);
        match OrderCreated::enqueue_all(&pool, list).await {
            Ok(ids) => assert_ids_name_their_orders(db, &ids, round * 100).await,
            Err(error) => {
                assert_eq!(error.kind(), &EnqueueErrorKind::Database);
                refused += 1;
            }
        }
    }
    let orphans = bodies(db).await - incoming(db).await;
    assert_eq!(orphans, refused * 3);
}

#[postgres]
async fn on_postgres_a_list_that_is_too_large_for_one_statement_is_refused(db: &TestDb) {
    const QUEUE: Queue = Queue::of("large", Partitions::of(1));
    let message = |_| NewMessage::new("large", 0, vec![1; 64 * 1024]);
    let error = enqueue_batch(db.connection(), &QUEUE, (0..4_200).map(message))
        .await
        .unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let told = format!("{error}: {}", cause.unwrap_or_default());
    assert!(told.contains("enqueue it in parts"), "{told}");
    assert_eq!((bodies(db).await, incoming(db).await), (0, 0));
}
