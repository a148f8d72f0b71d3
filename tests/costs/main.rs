//! What a message costs, counted and not timed: figures that repeat, so that a change that
//! costs more is seen even on a busy machine. The figures are in `figures.md`; more than 3 %
//! above one fails. `OUTBOX_COSTS=write` writes the file anew.

mod figures;
mod idle;
mod instructions;
mod meter;
mod workload;

use meter::Meter;
use outbox_tests::{Engine, PrivateServer, TestDb, run, run_at};
use sea_orm::ConnectionTrait;
use workload::Waste;

#[test]
fn costs_of_postgres_do_not_grow() {
    let server = PrivateServer::start(Engine::Postgres);
    run_at(Engine::Postgres, server.url(), |db| {
        Box::pin(async move {
            // What the server does by itself at some moment is not counted.
            db.execute("ALTER SYSTEM SET autovacuum = off").await;
            db.execute("ALTER SYSTEM SET wal_keep_size = '1GB'").await;
            db.execute("SELECT pg_reload_conf()").await;
            db.execute("CREATE EXTENSION pg_stat_statements").await;
            pinned(db).await;
        })
    });
}

#[test]
fn costs_of_mysql_do_not_grow() {
    let server = PrivateServer::start(Engine::MySql);
    run_at(Engine::MySql, server.url(), |db| Box::pin(pinned(db)));
}

#[test]
fn costs_of_sqlite_do_not_grow() {
    run(Engine::Sqlite, true, |db| Box::pin(pinned(db)));
}

/// Counts twice: as it is, and with an engine that is wasteful, which must be noticed.
async fn pinned(db: &TestDb) {
    let meter = Meter::of(db).await;
    workload::measure(&meter, Waste::Nothing)
        .await
        .assert_pinned();
    let wasteful = meter.connect().await;
    for statement in one_more_row(db.engine()) {
        let done = wasteful.execute_unprepared(statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let noticed = workload::measure(&meter, Waste::RoundTrips).await.dearer();
    let mut expected = vec![
        ("a leased batch of 100", "statements"),
        ("a transactional batch of 100", "statements"),
    ];
    match db.engine() {
        Engine::Sqlite => expected.push(("a transaction with 1 message", "WAL bytes")),
        Engine::Postgres | Engine::MySql => expected.extend([
            ("a leased batch of 100", "round trips"),
            ("a transaction with 1 message", "rows written"),
            ("a transaction with 100", "rows written"),
        ]),
    }
    for (what, column) in expected {
        let line = format!("  {what}: {column} before ");
        assert!(
            noticed.iter().any(|noticed| noticed.starts_with(&line)),
            "{what}: one more of {column} was not noticed, only:\n{}",
            noticed.join("\n")
        );
    }
}

/// Makes a trigger that writes one more row for every message.
fn one_more_row(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &[
            "CREATE TABLE wasted (id BIGINT)",
            "CREATE FUNCTION waste() RETURNS trigger LANGUAGE plpgsql AS \
                'BEGIN INSERT INTO wasted VALUES (NEW.id); RETURN NEW; END'",
            "CREATE TRIGGER waste AFTER INSERT ON outbox_body \
                FOR EACH ROW EXECUTE FUNCTION waste()",
        ],
        Engine::MySql => &[
            "CREATE TABLE wasted (id BIGINT)",
            "CREATE TRIGGER waste AFTER INSERT ON outbox_body \
                FOR EACH ROW INSERT INTO wasted VALUES (NEW.id)",
        ],
        Engine::Sqlite => &[
            "CREATE TABLE wasted (id BIGINT)",
            "CREATE TRIGGER waste AFTER INSERT ON outbox_body \
                BEGIN INSERT INTO wasted VALUES (NEW.id); END",
        ],
    }
}

/// All engines in the same minute.
#[test]
fn costs_of_an_idle_minute_do_not_grow() {
    let minutes = [Engine::Postgres, Engine::MySql, Engine::Sqlite].map(|engine| {
        std::thread::spawn(move || {
            run(engine, true, move |db| Box::pin(idle::minute(db)));
        })
    });
    for minute in minutes {
        if let Err(panic) = minute.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn costs_of_our_own_code_do_not_grow() {
    instructions::count().assert_pinned();
}
