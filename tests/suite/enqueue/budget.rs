//! What producing costs, counted by the server where there is one.

use super::*;
use outbox_tests::{mysql, postgres, sqlite};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Statements a producer may run.
struct Budget {
    one: i64,
    thousand: i64,
    empty: i64,
}

/// Runs the three workloads, each between two readings of `count`.
async fn assert_within<F: AsyncFn() -> i64>(tx: &DatabaseTransaction, count: F, budget: Budget) {
    let thousand = || (0..1_000).map(|order| (order, OrderCreated::new(order)));
    // Once outside the count: preparing is not what is measured.
    OrderCreated::new(1).emit(tx).await.unwrap();
    OrderCreated::enqueue_all(tx, thousand()).await.unwrap();
    count().await;

    let start = count().await;
    let own = count().await - start;
    OrderCreated::new(1).emit(tx).await.unwrap();
    let one = count().await;
    OrderCreated::enqueue_all(tx, thousand()).await.unwrap();
    let all = count().await;
    OrderCreated::enqueue_all(tx, thousand().take(0))
        .await
        .unwrap();
    let none = count().await;

    let after = start + own;
    assert_eq!(one - after - own, budget.one, "statements per enqueue");
    assert_eq!(
        all - one - own,
        budget.thousand,
        "statements per enqueue_all of 1,000"
    );
    assert_eq!(
        none - all - own,
        budget.empty,
        "statements for an empty list"
    );
}

async fn read(conn: &impl ConnectionTrait, sql: &str) -> i64 {
    let statement = Statement::from_string(conn.get_database_backend(), sql);
    let row = conn.query_one_raw(statement).await.unwrap().expect("a row");
    row.try_get_by_index(0).expect("a number")
}

#[postgres]
async fn postgres_takes_one_statement_for_one_and_for_a_thousand(db: &TestDb) {
    db.connection()
        .execute_unprepared("CREATE EXTENSION pg_stat_statements")
        .await
        .expect("the server needs shared_preload_libraries = 'pg_stat_statements'");
    let tx = db.connection().begin().await.unwrap();
    let count = async || {
        let calls = "SELECT SUM(calls)::bigint FROM pg_stat_statements \
                     WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                     AND query LIKE '%outbox_%' AND query NOT LIKE '%pg_stat_statements%'";
        read(db.connection(), calls).await
    };
    assert_within(
        &tx,
        count,
        Budget {
            one: 1,
            thousand: 1,
            empty: 0,
        },
    )
    .await;
}

#[mysql]
async fn mysql_takes_two_statements_for_one_and_three_for_a_thousand(db: &TestDb) {
    let tx = db.connection().begin().await.unwrap();
    let count = async || {
        let questions = "SELECT CAST(variable_value AS SIGNED) \
                         FROM information_schema.session_status \
                         WHERE variable_name = 'Questions'";
        read(&tx, questions).await
    };
    assert_within(
        &tx,
        count,
        Budget {
            one: 2,
            thousand: 3,
            empty: 0,
        },
    )
    .await;
}

#[sqlite]
async fn sqlite_takes_two_statements_for_one_and_for_a_thousand(db: &TestDb) {
    let statements = Arc::new(AtomicI64::new(0));
    let counter = statements.clone();
    let mut counted = db.connect().await;
    counted.set_metric_callback(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let tx = counted.begin().await.unwrap();
    let count = async || statements.load(Ordering::SeqCst);
    assert_within(
        &tx,
        count,
        Budget {
            one: 2,
            thousand: 2,
            empty: 0,
        },
    )
    .await;
}
