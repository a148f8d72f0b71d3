//! A statement that a server refuses fails here, not in production.

use super::*;
use outbox_tests::every_engine;
use sea_orm::SqlxError;
use sea_orm::sqlx::{AssertSqlSafe, Executor, SqlSafeStr};

async fn prepare(db: &TestDb, text: String) -> Result<(), SqlxError> {
    let text = AssertSqlSafe(text).into_sql_str();
    let pool = db.connection();
    match db.engine() {
        Engine::Postgres => {
            let mut conn = pool.get_postgres_connection_pool().acquire().await?;
            conn.prepare(text).await.map(drop)
        }
        Engine::MySql => {
            let mut conn = pool.get_mysql_connection_pool().acquire().await?;
            conn.prepare(text).await.map(drop)
        }
        Engine::Sqlite => {
            let mut conn = pool.get_sqlite_connection_pool().acquire().await?;
            conn.prepare(text).await.map(drop)
        }
    }
}

#[every_engine]
async fn each_is_accepted_by_its_engine(db: &TestDb) {
    let statements = statements(db);
    assert!(
        statements.len() > 60,
        "only {} are listed",
        statements.len()
    );
    let mut refused = Vec::new();
    for (name, text) in statements {
        if let Err(error) = prepare(db, text.clone()).await {
            refused.push(format!("{name}: {error}\n  {text}"));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[every_engine]
async fn no_word_hole_or_comment_is_left_in_them(db: &TestDb) {
    for (name, text) in statements(db) {
        for rest in ["{", "}", "--", "\n", "  "] {
            assert!(!text.contains(rest), "{name} has {rest:?}: {text}");
        }
    }
}

#[every_engine]
async fn those_of_another_engine_are_not_among_them(db: &TestDb) {
    let of_postgres = statements(db)
        .iter()
        .any(|(name, _)| name.contains("::postgres::"));
    assert_eq!(of_postgres, db.engine() == Engine::Postgres);
}
