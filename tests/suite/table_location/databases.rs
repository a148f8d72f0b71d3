//! On MySQL the connection's database says where the tables are.

use super::*;
use outbox::{ConfigError, SchemaError};
use outbox_tests::{Engine, mysql, run_two};

#[test]
fn outboxes_in_two_databases_share_a_queue_name_and_no_message() {
    run_two(Engine::MySql, |one, other| {
        Box::pin(each_handles_its_own(
            [one.connection(), other.connection()],
            None,
        ))
    });
}

#[mysql(empty)]
async fn a_connection_without_a_database_is_told_to_name_one(db: &TestDb) {
    let (server, _) = db.url().rsplit_once('/').expect("a URL with a database");
    let conn = Database::connect(server).await.unwrap();
    for refused in [
        outbox::migrate(&conn).await,
        outbox::check_schema(&conn).await,
        outbox::migrations::down(&conn).await,
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, SchemaError::NoDatabase), "{error}");
        assert!(error.to_string().contains("mysql://host/shop"), "{error}");
    }
    let error = start_error(&conn).await;
    assert!(
        matches!(
            error.problems(),
            [ConfigError::Schema(SchemaError::NoDatabase)]
        ),
        "{error}"
    );
    conn.close().await.unwrap();
}
