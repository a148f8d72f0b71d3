//! On PostgreSQL the connection's `search_path` says where the tables are.

use super::*;
use outbox::{DeadLetterFilter, SchemaError};
use outbox_tests::postgres;

#[postgres(empty)]
async fn the_tables_are_made_in_the_schema_of_the_search_path_and_nowhere_else(db: &TestDb) {
    // A name that needs quotes, too.
    db.execute("CREATE SCHEMA app").await;
    db.execute("CREATE SCHEMA \"My Schema\"").await;
    let in_url = |schema: &str| {
        let separator = if db.url().contains('?') { '&' } else { '?' };
        format!("{}{separator}options=-c%20search_path%3D{schema}", db.url())
    };
    let by_url = Database::connect(in_url("app")).await.unwrap();
    for (conn, schema) in [
        (by_url, "app"),
        (connect_in(db, "My Schema").await, "My Schema"),
    ] {
        outbox::migrate(&conn).await.unwrap();
        outbox::migrate(&conn).await.unwrap();
        outbox::check_schema(&conn).await.unwrap();
        assert_eq!(places(db).await, [format!("{schema} {TABLES}")]);
        let elsewhere = outbox::check_schema(db.connection()).await;
        assert!(matches!(elsewhere, Err(SchemaError::Missing)));
        outbox::migrations::down(&conn).await.unwrap();
        assert_eq!(places(db).await, Vec::<String>::new());
    }
}

#[postgres]
async fn removing_the_tables_of_one_schema_leaves_those_of_another(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    let app = connect_in(db, "app").await;
    outbox::migrate(&app).await.unwrap();
    outbox::migrations::down(&app).await.unwrap();
    assert_eq!(places(db).await, [format!("public {TABLES}")]);
}

#[postgres(empty)]
async fn an_outbox_in_a_schema_of_its_own_does_everything_there(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    let app = connect_in(db, "app").await;
    outbox::migrate(&app).await.unwrap();
    let seen = Seen::default();
    let running = start(&app, &seen).await;
    let mut expected = commit_twenty(&app, "n").await;
    let reject = NewMessage::new("step", 1, "reject");
    enqueue(&app, &QUEUE, reject).await.unwrap();
    running.drained().await.unwrap();
    expected.push("reject".to_owned());
    assert_eq!(seen.all(), expected);

    let letters = running.outbox().dead_letters();
    let all = DeadLetterFilter::new();
    assert_eq!(letters.count(&all).await.unwrap(), 1);
    assert_eq!(letters.requeue(all).await.unwrap().requeued.len(), 1);
    running.drained().await.unwrap();
    expected.push("reject".to_owned());
    assert_eq!(seen.all(), expected);
    running.stats().await.unwrap();
    assert!(running.stop().await.clean);
    assert_eq!(places(db).await, [format!("app {TABLES}")]);
}

#[postgres(empty)]
async fn outboxes_in_two_schemas_share_a_queue_name_and_no_message(db: &TestDb) {
    two_schemas(db, false).await;
}

/// Both listen to the same channel: a notification of one wakes the other, which finds nothing.
#[postgres(empty)]
async fn outboxes_in_two_schemas_that_notify_each_other_share_no_message(db: &TestDb) {
    two_schemas(db, true).await;
}

async fn two_schemas(db: &TestDb, notify: bool) {
    let mut connections = Vec::new();
    for schema in ["shop", "stock"] {
        db.execute(&format!("CREATE SCHEMA {schema}")).await;
        let connection = connect_in(db, schema).await;
        outbox::migrate(&connection).await.unwrap();
        connections.push(connection);
    }
    let notify = notify.then_some(db);
    each_handles_its_own([&connections[0], &connections[1]], notify).await;
    let both = [format!("shop {TABLES}"), format!("stock {TABLES}")];
    assert_eq!(places(db).await, both);
}
