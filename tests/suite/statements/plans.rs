//! The plans of the statements that run all the time. With a backlog each must find its rows by an
//! index, with the planner's statistics and without: a scan of a table of millions of rows stops a
//! queue.

use super::*;
use outbox_tests::{engines, postgres};

/// Rows in each table.
const BACKLOG: u32 = 100_000;

/// Fills a queue of one partition: half of the messages have a sequence number.
async fn fill(db: &TestDb) {
    let queue = outbox::queue_id("plans");
    let numbers = match db.engine() {
        Engine::Postgres => format!("SELECT n FROM generate_series(1, {BACKLOG}) AS s (n)"),
        // Every combination of five digits.
        Engine::MySql | Engine::Sqlite => {
            let digits = "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 \
                UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 \
                UNION ALL SELECT 8 UNION ALL SELECT 9)";
            format!(
                "SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d AS n \
                 FROM {digits} a, {digits} b, {digits} c, {digits} e, {digits} f"
            )
        }
    };
    let now = db.from_now(0);
    let (key, headers) = match db.engine() {
        Engine::Postgres => ("'\\x00'::bytea", "''"),
        Engine::MySql | Engine::Sqlite => ("x'00'", "NULL"),
    };
    let target = headers;
    let half = BACKLOG / 2;
    for statement in [
        format!(
            "INSERT INTO outbox_queue (id, name, partitions, created_at) \
             VALUES ({queue}, 'plans', 1, {now})"
        ),
        format!(
            "INSERT INTO outbox_partition (id, queue_id, number, sequence) \
             VALUES ({queue}, {queue}, 0, {half})"
        ),
        format!("INSERT INTO outbox_cursor (partition_id, consumer) VALUES ({queue}, 'default')"),
        format!(
            "INSERT INTO outbox_body (id, queue_id, slot, nonce, event_type, {}, payload, headers, \
                target, enqueued_at) \
             SELECT n, {queue}, 0, n, 'e', {key}, {key}, {headers}, {target}, {now} \
             FROM ({numbers}) s",
            db.quoted("key")
        ),
        format!(
            "INSERT INTO outbox_outgoing (partition_id, seq, id) \
             SELECT {queue}, n, n FROM ({numbers}) s WHERE n <= {half}"
        ),
        format!(
            "INSERT INTO outbox_incoming (queue_id, id, slot) \
             SELECT {queue}, n, 0 FROM ({numbers}) s WHERE n > {half}"
        ),
    ] {
        db.execute(&statement).await;
    }
}

/// What PostgreSQL plans for any values.
async fn generic_plan(db: &TestDb, name: &str) -> String {
    let text = statement(db, name);
    let parameters = (1..)
        .take_while(|n| text.contains(&format!("${n}")))
        .count();
    let nulls = vec!["NULL"; parameters].join(", ");
    let mut conn = db
        .connection()
        .get_postgres_connection_pool()
        .acquire()
        .await
        .unwrap();
    for statement in [
        "SET plan_cache_mode = force_generic_plan".to_owned(),
        "DEALLOCATE ALL".to_owned(),
        format!("PREPARE statement AS {text}"),
    ] {
        let statement = sea_orm::sqlx::AssertSqlSafe(statement);
        sea_orm::sqlx::raw_sql(statement)
            .execute(&mut *conn)
            .await
            .unwrap();
    }
    let explain = format!("EXPLAIN EXECUTE statement ({nulls})");
    let explain = sea_orm::sqlx::raw_sql(sea_orm::sqlx::AssertSqlSafe(explain));
    let rows = explain.fetch_all(&mut *conn).await.unwrap();
    let lines = rows
        .iter()
        .map(|row| sea_orm::sqlx::Row::get::<String, _>(row, 0));
    lines.collect::<Vec<_>>().join("\n")
}

/// The tables that grow with a backlog.
const LARGE: [&str; 3] = ["outbox_incoming", "outbox_outgoing", "outbox_body"];

#[postgres]
async fn on_postgresql_no_large_table_is_scanned_with_and_without_statistics(db: &TestDb) {
    db.execute("ALTER TABLE outbox_body SET (autovacuum_enabled = off)")
        .await;
    db.execute("ALTER TABLE outbox_incoming SET (autovacuum_enabled = off)")
        .await;
    db.execute("ALTER TABLE outbox_outgoing SET (autovacuum_enabled = off)")
        .await;
    fill(db).await;
    for statistics in [false, true] {
        if statistics {
            db.execute("ANALYZE").await;
        }
        for name in [
            "claim::CLAIM",
            "claim::ACKNOWLEDGE_AND_CLAIM",
            "claim::CLAIM_TOGETHER",
            "sequence::SEQUENCE",
            "reconcile::WAITING",
            "reconcile::SEEN_AND_WAITING_THOROUGHLY",
            "vacuum::VACUUM",
        ] {
            let plan = generic_plan(db, name).await;
            for table in LARGE {
                assert!(
                    !plan.contains(&format!("Seq Scan on {table}")),
                    "{name} scans {table} (statistics: {statistics}):\n{plan}"
                );
            }
            assert!(plan.contains("Index"), "{name} uses no index:\n{plan}");
        }
    }
}

#[engines(mysql, sqlite)]
async fn elsewhere_no_large_table_is_scanned_either(db: &TestDb) {
    fill(db).await;
    db.execute(match db.engine() {
        Engine::Sqlite => "ANALYZE",
        _ => "ANALYZE TABLE outbox_body, outbox_incoming, outbox_outgoing",
    })
    .await;
    let queue = outbox::queue_id("plans").to_string();
    for name in [
        "claim::READ_TO_CLAIM",
        "sequence::NEXT_ROWS",
        "reconcile::WAITING",
        "vacuum::OLDEST_ROWS",
        "read_ahead::READ_WINDOW",
    ] {
        let text = statement(db, name).replace('?', &queue);
        let scans = scanned(db, &text).await;
        assert_eq!(scans, [""; 0], "{name} scans tables: {text}");
    }
}

/// The aliases of large tables that a statement reads as a whole.
async fn scanned(db: &TestDb, text: &str) -> Vec<String> {
    let backend = db.connection().get_database_backend();
    let explain = match db.engine() {
        Engine::Sqlite => "EXPLAIN QUERY PLAN",
        _ => "EXPLAIN",
    };
    let statement = sea_orm::Statement::from_string(backend, format!("{explain} {text}"));
    let rows = db.connection().query_all_raw(statement).await.unwrap();
    let mut scanned = Vec::new();
    for row in rows {
        match db.engine() {
            Engine::Sqlite => {
                let detail: String = row.try_get_by("detail").unwrap();
                // A subquery's result may be walked; a table may not.
                let table = detail.strip_prefix("SCAN ").unwrap_or_default();
                if !table.is_empty() && is_large(table) {
                    scanned.push(detail);
                }
            }
            _ => {
                let kind: Option<String> = row.try_get_by("type").unwrap();
                let table: Option<String> = row.try_get_by("table").unwrap();
                let (kind, table) = (kind.unwrap_or_default(), table.unwrap_or_default());
                if (kind == "ALL" || kind == "index") && is_large(&table) {
                    scanned.push(format!("{kind} {table}"));
                }
            }
        }
    }
    scanned
}

/// Whether an alias of our statements stands for a table that grows with a backlog.
fn is_large(alias: &str) -> bool {
    let alias = alias.split(' ').next().unwrap_or_default();
    LARGE.contains(&alias) || ["g", "b", "sized", "i", "n"].contains(&alias)
}
