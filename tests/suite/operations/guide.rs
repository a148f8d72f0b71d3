//! The SQL that the guides tell people to run.

use super::{QUEUE, Seen, commit};
use outbox::prelude::*;
use outbox::{Ctx, LeasedMessageHandler, NewMessage, OutboxMessage, Slot};
use outbox_tests::{Engine, TestDb, eventually, every_engine, every_server, postgres};
use sea_orm::Statement;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

const SCHEMA: &str = include_str!("../../../outbox/src/guide/schema.md");
const DEPLOYING: &str = include_str!("../../../outbox/src/guide/deploying.md");

/// The blocks of SQL in a guide.
fn sql(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```sql\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

/// The statements of a block, without comments.
fn statements(block: &str) -> Vec<String> {
    let lines = block.lines().filter(|line| !line.starts_with("--"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let statements = text.split(';').map(|text| text.trim().to_owned());
    statements.filter(|text| !text.is_empty()).collect()
}

/// The guide's block with these words in it.
fn block_with(words: &str) -> &'static str {
    let blocks = sql(SCHEMA);
    assert_eq!(blocks.len(), 4);
    let mut found = blocks.into_iter().filter(|block| block.contains(words));
    let block = found.next().expect(words);
    assert_eq!(found.next(), None);
    block
}

#[every_server]
async fn the_guides_statements_compute_the_id_of_a_queue_and_the_slot_of_a_key(db: &TestDb) {
    let (postgres, mysql) = block_with("customer-7")
        .split_once("-- MySQL")
        .expect("two engines");
    let ours = match db.engine() {
        Engine::MySql => mysql,
        Engine::Postgres | Engine::Sqlite => postgres,
    };
    let slot = Slot::of_key(b"customer-7").get();
    let expected = [outbox::queue_id("orders"), i64::from(slot)];
    let statements = statements(ours);
    assert_eq!(statements.len(), expected.len());
    for (statement, expected) in statements.iter().zip(expected) {
        let equal = format!("SELECT COUNT(*) FROM outbox_schema WHERE {expected} IN ({statement})");
        assert_eq!(db.number(&equal).await, 1, "{statement}");
    }
}

/// Fails with a reason.
struct Broken;

#[async_trait::async_trait]
impl LeasedMessageHandler for Broken {
    async fn handle(&self, _: &OutboxMessage, _: &Ctx) -> HandlerResult {
        HandlerResult::retry_after(HOUR, "the world is down")
    }
}

#[postgres]
async fn the_guides_queries_show_how_far_consumers_are_and_what_fails(db: &TestDb) {
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .leased(Broken)
        .start()
        .await
        .unwrap();
    commit(db.connection(), "order.created", "{}").await;
    let rows = async |words| {
        let mut statements = statements(block_with(words));
        let text = statements.remove(0);
        let statement = Statement::from_string(db.connection().get_database_backend(), text);
        db.connection().query_all_raw(statement).await.unwrap()
    };
    eventually("a failure", async || {
        !rows("WHERE NOT a.done").await.is_empty()
    })
    .await;
    let failing = rows("WHERE NOT a.done").await;
    let text = |column: &str| failing[0].try_get_by::<String, _>(column).unwrap();
    assert_eq!(
        [text("queue"), text("key"), text("last_error")],
        ["operations", "1", "the world is down"]
    );
    let lags = rows("AS lag").await;
    let lags: Vec<i64> = lags
        .iter()
        .map(|row| row.try_get_by("lag").unwrap())
        .collect();
    assert_eq!(lags, [1, 0], "the one behind comes first");
    running.stop().await;
}

/// Rejects what is `bad`, and cannot do anything else for an hour.
struct Slow;

#[async_trait::async_trait]
impl LeasedMessageHandler for Slow {
    async fn handle(&self, message: &OutboxMessage, _: &Ctx) -> HandlerResult {
        match message.event_type() {
            "bad" => HandlerResult::reject("bad"),
            _ => HandlerResult::retry_after(HOUR, "later"),
        }
    }
}

/// Where a message is, as the guide's query says: states and consumers in alphabetical order.
async fn states(db: &TestDb, id: i64) -> Vec<(String, String)> {
    let mut statements = statements(block_with("AS state"));
    let text = statements.remove(0).replace("4711", &id.to_string());
    let statement = Statement::from_string(db.connection().get_database_backend(), text.clone());
    let rows = db.connection().query_all_raw(statement).await;
    let rows = rows.unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut states: Vec<(String, String)> = rows
        .iter()
        .map(|row| {
            let consumer: Option<String> = row.try_get_by("consumer").unwrap();
            (
                row.try_get_by("state").unwrap(),
                consumer.unwrap_or_default(),
            )
        })
        .collect();
    states.sort();
    states
}

#[every_engine]
async fn the_guides_query_says_where_a_message_is(db: &TestDb) {
    let partition = QUEUE.partition_of_key(b"k");
    let send = async |message: NewMessage| {
        let id = outbox::enqueue(db.connection(), &QUEUE, message).await;
        id.expect("enqueue").get()
    };
    let bad = send(NewMessage::new("bad", "k", "{}")).await;
    let of_key = send(NewMessage::new("good", "k", "{}")).await;
    // Not where its key would lead.
    let by_hand = NewMessage::new("good", "k", "{}").to_partition(1 - partition);
    let by_hand = send(by_hand).await;
    let pairs = |states: &[(&str, &str)]| -> Vec<(String, String)> {
        let owned = |(state, consumer): &(&str, &str)| (state.to_string(), consumer.to_string());
        states.iter().map(owned).collect()
    };
    for id in [bad, of_key, by_hand] {
        let waits = pairs(&[("waits for its number", "")]);
        assert_eq!(states(db, id).await, waits);
    }
    let running = Outbox::builder(db.connection().clone())
        .queue(QUEUE.name(), QUEUE.partitions())
        .consumer("quick")
        .leased(Seen::default())
        .queue(QUEUE.name(), QUEUE.partitions())
        .consumer("slow")
        .leased(Slow)
        .start()
        .await
        .unwrap();
    let sequenced = pairs(&[("done", "quick"), ("on its way", "slow")]);
    for id in [of_key, by_hand] {
        eventually("a sequence number", async || {
            states(db, id).await == sequenced
        })
        .await;
    }
    // Only the letter is left when both consumers are done with the message.
    let dead = pairs(&[("dead letter, pending", "slow")]);
    eventually("a letter", async || states(db, bad).await == dead).await;
    running.stop().await;
    assert_eq!(states(db, i64::MAX).await, []);
}

#[postgres]
async fn a_producer_needs_no_more_than_the_guide_grants(db: &TestDb) {
    let role = format!("producer_{}", uuid::Uuid::new_v4().simple());
    db.execute(&format!("CREATE ROLE {role}")).await;
    let granted = sql(DEPLOYING);
    let grant = granted.first().expect("a grant");
    for grant in grant.split(";\n").filter(|grant| !grant.is_empty()) {
        db.execute(&grant.replace("producer", &role)).await;
    }

    let tx = db.connection().begin().await.expect("a transaction");
    let become_it = format!("SET LOCAL ROLE {role}");
    tx.execute_unprepared(&become_it).await.expect("the role");
    let message = |text| NewMessage::new("order.created", 1, text);
    let one = outbox::enqueue(&tx, &QUEUE, message("a")).await;
    one.expect("a message");
    let many = outbox::enqueue_batch(&tx, &QUEUE, ["b", "c"].map(message)).await;
    assert_eq!(many.expect("a list").len(), 2);
    let peek = tx
        .execute_unprepared("SELECT payload FROM outbox_body")
        .await;
    assert!(peek.is_err(), "a producer can read what others sent");
    tx.rollback().await.expect("a rollback");

    db.execute(&format!("DROP OWNED BY {role}")).await;
    db.execute(&format!("DROP ROLE {role}")).await;
}
