//! A `search_path` that leads to two outboxes, or to none, is refused before anything is changed.

use super::*;
use outbox::{ConfigError, SchemaError};
use outbox_tests::postgres;
use sea_orm::ConnectionTrait;

/// `migrate`, `down`, `check_schema` and `start` refuse the connection, each with an error that
/// `is_expected` and that has these words in it.
async fn refused(
    conn: &DatabaseConnection,
    words: &[&str],
    is_expected: impl Fn(&SchemaError) -> bool,
) {
    let assert_expected = |error: &SchemaError| {
        let text = error.to_string();
        assert!(is_expected(error), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    };
    assert_expected(&outbox::migrate(conn).await.unwrap_err());
    assert_expected(&outbox::migrations::down(conn).await.unwrap_err());
    assert_expected(&outbox::check_schema(conn).await.unwrap_err());
    let error = start_error(conn).await;
    match error.problems() {
        [ConfigError::Schema(error)] => assert_expected(error),
        _ => panic!("{error}"),
    }
}

/// Refused because of tables in `app` and in `public`.
async fn refused_as_mixed(conn: &DatabaseConnection) {
    refused(conn, &["(`app`, `public`)", "search_path", "set"], |error| {
        matches!(error, SchemaError::SeveralSchemas { schemas } if schemas == &["app", "public"])
    })
    .await;
}

#[postgres]
async fn a_search_path_with_two_outboxes_is_refused(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    outbox::migrate(&connect_in(db, "app").await).await.unwrap();
    let before = places(db).await;
    refused_as_mixed(&connect_in(db, "app,public").await).await;
    assert_eq!(places(db).await, before);
    // One of them alone is fine, also beside a schema that has none.
    db.execute("CREATE SCHEMA empty").await;
    for search_path in ["app", "public", "app,empty"] {
        let conn = connect_in(db, search_path).await;
        start(&conn, &Seen::default()).await.stop().await;
    }
}

#[postgres]
async fn tables_of_which_some_are_found_in_another_schema_are_refused(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    db.execute("CREATE TABLE app.outbox_body (LIKE public.outbox_body)")
        .await;
    let mixed = connect_in(db, "app,public").await;
    refused_as_mixed(&mixed).await;
    // The rest is there, one table is missing and found behind.
    outbox::migrate(&connect_in(db, "app").await).await.unwrap();
    db.execute("DROP TABLE app.outbox_cursor, public.outbox_schema")
        .await;
    refused_as_mixed(&mixed).await;
}

#[postgres(empty)]
async fn tables_of_other_programs_with_similar_names_are_no_reason_to_refuse(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    // Ours are found first, or this one is not called like any of ours.
    db.execute("CREATE TABLE public.outbox_queue (id integer)")
        .await;
    db.execute("CREATE TABLE public.outbox_events (id integer)")
        .await;
    let conn = connect_in(db, "app,public").await;
    outbox::migrate(&conn).await.unwrap();
    assert_eq!(
        places(db).await,
        [format!("app {TABLES}"), "public 2".to_owned()]
    );
    let seen = Seen::default();
    let running = start(&conn, &seen).await;
    let sent = commit_twenty(&conn, "n").await;
    running.drained().await.unwrap();
    assert_eq!(seen.all(), sent);
    running.stop().await;
}

#[postgres]
async fn tables_behind_an_empty_schema_are_used_but_not_migrated_from_there(db: &TestDb) {
    db.execute("CREATE SCHEMA app").await;
    let conn = connect_in(db, "app,public").await;
    outbox::migrate(&conn).await.unwrap();
    start(&conn, &Seen::default()).await.stop().await;
    // A newer version's tables would be made in `app`.
    db.execute("UPDATE outbox_schema SET number = 0").await;
    let error = outbox::migrate(&conn).await.unwrap_err();
    assert!(
        matches!(&error, SchemaError::OtherSchema { found, target }
            if found == "public" && target == "app"),
        "{error}"
    );
    assert!(error.to_string().contains("set its search_path"), "{error}");
    assert_eq!(places(db).await, [format!("public {TABLES}")]);
    outbox::migrate(&connect_in(db, "public").await)
        .await
        .unwrap();
    outbox::check_schema(&conn).await.unwrap();
}

#[postgres(empty)]
async fn a_search_path_without_a_schema_is_refused_and_shown(db: &TestDb) {
    let conn = connect_in(db, "nowhere").await;
    refused(&conn, &["(nowhere)", "create the schema"], |error| {
        matches!(error, SchemaError::NoSchema { .. })
    })
    .await;
    db.execute("CREATE SCHEMA nowhere").await;
    outbox::migrate(&conn).await.unwrap();
    assert_eq!(places(db).await, [format!("nowhere {TABLES}")]);
}

#[postgres]
async fn a_temporary_table_that_hides_one_of_ours_is_refused(db: &TestDb) {
    // It belongs to a session: a pool of one connection.
    let mut options = ConnectOptions::new(db.url());
    options.max_connections(1);
    let conn = Database::connect(options).await.unwrap();
    let create = "CREATE TEMPORARY TABLE outbox_body (id bigint)";
    conn.execute_unprepared(create).await.unwrap();
    refused(&conn, &["`outbox_body`", "drop it"], |error| {
        matches!(error, SchemaError::TemporaryTable { .. })
    })
    .await;
    let drop = "DROP TABLE pg_temp.outbox_body";
    conn.execute_unprepared(drop).await.unwrap();
    outbox::check_schema(&conn).await.unwrap();
}
