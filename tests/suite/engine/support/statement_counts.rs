//! How many statements of which kind ran, as PostgreSQL counts them.

use super::super::*;

/// Lets the server count the statements of this database.
pub(crate) async fn count_statements(db: &TestDb) {
    db.execute("CREATE EXTENSION pg_stat_statements").await;
}

/// How many statements of a kind ran in this database.
pub(crate) async fn calls(db: &TestDb, condition: &str) -> i64 {
    db.number(&format!(
        "SELECT COALESCE(SUM(calls), 0)::bigint FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query NOT LIKE '%pg_stat_statements%' AND ({condition})"
    ))
    .await
}

/// What ran in this database how often, for the message of a failure.
pub(crate) async fn listed(db: &TestDb) -> String {
    let texts = db.texts(
        "SELECT calls || ' x ' || left(query, 160) FROM pg_stat_statements \
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND query LIKE '%outbox_%' ORDER BY calls DESC",
    );
    texts.await.join("\n")
}
