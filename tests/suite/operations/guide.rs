//! The SQL that the guides tell people to run.

use super::{QUEUE, commit};
use outbox::NewMessage;
use outbox::prelude::*;
use outbox_tests::{TestDb, postgres};
use sea_orm::Statement;

const SCHEMA: &str = include_str!("../../../outbox/src/guide/schema.md");
const DEPLOYING: &str = include_str!("../../../outbox/src/guide/deploying.md");

/// The blocks of SQL in a guide.
fn sql(guide: &str) -> Vec<&str> {
    let blocks = guide.split("```sql\n").skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

#[postgres]
async fn the_queries_of_the_guide_find_what_they_say(db: &TestDb) {
    let connection = db.connection();
    let id = commit(connection, "order.created", "{}").await;
    let found = sql(SCHEMA);
    assert_eq!(found.len(), 4);
    let mut states = Vec::new();
    // What follows is another engine's.
    let postgres = found.iter().flat_map(|block| {
        let ours = block.split("-- MySQL").next().unwrap_or_default();
        ours.trim_end().split(";\n")
    });
    for text in postgres {
        let text = text.trim_end().trim_end_matches(';');
        let text = text.replace("4711", &id.to_string());
        let statement = Statement::from_string(connection.get_database_backend(), text.clone());
        let rows = connection.query_all_raw(statement).await;
        let rows = rows.unwrap_or_else(|error| panic!("{text}: {error}"));
        if text.contains("AS state") {
            states.extend(
                rows.iter()
                    .map(|row| row.try_get_by_index::<String>(0).unwrap()),
            );
        }
    }
    assert_eq!(states, ["waits for its number"]);
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
