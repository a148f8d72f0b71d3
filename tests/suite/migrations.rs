//! Creating, checking and removing the tables.

use expect_test::expect_file;
use futures_util::future::{join_all, try_join_all};
use outbox::SchemaError;
use outbox_tests::{Engine, TestDb, eventually, every_engine, mysql, schema_text};
use sea_orm::{DbErr, TransactionTrait};
use sea_orm_migration::prelude::*;
use std::path::Path;

/// A user's migrator with a table of its own before ours.
struct UserMigrator;

impl MigratorTrait for UserMigrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let mut list: Vec<Box<dyn MigrationTrait>> = vec![Box::new(CreateOrders)];
        list.extend(outbox::migrations::migrations());
        list
    }
}

struct CreateOrders;

impl MigrationName for CreateOrders {
    fn name(&self) -> &str {
        "m20260101_000001_create_orders"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for CreateOrders {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let orders = Table::create()
            .table("orders")
            .col(ColumnDef::new("id").big_integer().primary_key())
            .take();
        manager.create_table(orders).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager
            .drop_table(Table::drop().table("orders").take())
            .await
    }
}

/// The printed script as single statements.
fn script(backend: sea_orm::DbBackend) -> Vec<String> {
    let script = outbox::migrations::sql(backend).expect("a supported engine");
    script
        .split(";\n")
        .map(|statement| statement.trim().to_owned())
        .filter(|statement| !statement.is_empty())
        .collect()
}

#[every_engine(empty)]
async fn every_table_and_index_is_there(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    let snapshot = match db.engine() {
        Engine::Postgres => expect_file!["../snapshots/schema.postgres.txt"],
        Engine::MySql => expect_file!["../snapshots/schema.mysql.txt"],
        Engine::Sqlite => expect_file!["../snapshots/schema.sqlite.txt"],
    };
    snapshot.assert_eq(&schema_text(db).await);
}

#[every_engine(empty)]
async fn migrating_twice_changes_nothing(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    let first = schema_text(db).await;
    db.execute("INSERT INTO outbox_outgoing (partition_id, seq, id) VALUES (1, 1, 1)")
        .await;
    outbox::migrate(db.connection()).await.unwrap();
    assert_eq!(schema_text(db).await, first);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_outgoing").await, 1);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_schema").await, 1);
}

#[every_engine(empty)]
async fn processes_that_migrate_at_once_all_succeed(db: &TestDb) {
    let processes = join_all((0..8).map(|_| db.connect())).await;
    try_join_all(processes.iter().map(outbox::migrate))
        .await
        .unwrap();
    outbox::check_schema(db.connection()).await.unwrap();
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_schema").await, 1);
}

#[every_engine(empty)]
async fn down_removes_everything_of_ours_and_nothing_else(db: &TestDb) {
    db.execute("CREATE TABLE outbox (id INTEGER PRIMARY KEY)")
        .await;
    db.execute("INSERT INTO outbox (id) VALUES (7)").await;
    let before = schema_text(db).await;
    outbox::migrate(db.connection()).await.unwrap();
    let migrated = schema_text(db).await;
    outbox::migrations::down(db.connection()).await.unwrap();
    assert_eq!(schema_text(db).await, before);
    assert_eq!(
        db.number("SELECT COUNT(*) FROM outbox WHERE id = 7").await,
        1
    );

    // Down again has nothing to do; up again is as new.
    outbox::migrations::down(db.connection()).await.unwrap();
    outbox::migrate(db.connection()).await.unwrap();
    assert_eq!(schema_text(db).await, migrated);
}

#[every_engine(empty)]
async fn a_migration_that_died_half_way_is_finished_by_the_next(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    let whole = schema_text(db).await;
    outbox::migrations::down(db.connection()).await.unwrap();

    let statements = script(db.connection().get_database_backend());
    assert!(statements.len() > 10);
    for died_after in 0..statements.len() {
        for statement in &statements[..died_after] {
            db.execute(statement).await;
        }
        assert!(
            matches!(
                outbox::check_schema(db.connection()).await,
                Err(SchemaError::Missing)
            ),
            "the schema counts as there after {died_after} statements"
        );
        outbox::migrate(db.connection()).await.unwrap();
        assert_eq!(
            schema_text(db).await,
            whole,
            "died after {died_after} statements"
        );
        outbox::migrations::down(db.connection()).await.unwrap();
    }
}

#[every_engine(empty)]
async fn the_printed_script_is_the_schema_and_may_be_run_twice(db: &TestDb) {
    let script = script(db.connection().get_database_backend());
    for statement in script.iter().chain(&script) {
        db.execute(statement).await;
    }
    outbox::check_schema(db.connection()).await.unwrap();
    let by_hand = schema_text(db).await;
    outbox::migrations::down(db.connection()).await.unwrap();
    outbox::migrate(db.connection()).await.unwrap();
    assert_eq!(schema_text(db).await, by_hand);
}

#[every_engine(empty)]
async fn a_users_own_migrator_can_include_ours(db: &TestDb) {
    UserMigrator::up(db.connection(), None).await.unwrap();
    outbox::check_schema(db.connection()).await.unwrap();
    db.execute("INSERT INTO orders (id) VALUES (1)").await;
    let theirs = schema_text(db).await;

    // Ours beside it, and theirs again: both see that there is nothing to do.
    outbox::migrate(db.connection()).await.unwrap();
    UserMigrator::up(db.connection(), None).await.unwrap();
    assert_eq!(schema_text(db).await, theirs);

    UserMigrator::down(db.connection(), Some(1)).await.unwrap();
    assert_eq!(schema_text(db).await, "");
    assert_eq!(db.number("SELECT COUNT(*) FROM orders").await, 1);
}

#[every_engine(empty)]
async fn a_users_migrator_accepts_tables_that_migrate_made(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    let ours = schema_text(db).await;
    UserMigrator::up(db.connection(), None).await.unwrap();
    assert_eq!(schema_text(db).await, ours);
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_schema").await, 1);
    UserMigrator::down(db.connection(), None).await.unwrap();
    assert_eq!(schema_text(db).await, "");
}

#[every_engine(empty)]
async fn a_database_without_tables_is_refused_and_told_what_to_call(db: &TestDb) {
    let error = outbox::check_schema(db.connection()).await.unwrap_err();
    assert!(matches!(error, SchemaError::Missing));
    assert!(
        error.to_string().contains("outbox::migrate(&db)"),
        "{error}"
    );
}

#[every_engine(empty)]
async fn an_older_schema_is_refused(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    db.execute("UPDATE outbox_schema SET number = 0").await;
    let error = outbox::check_schema(db.connection()).await.unwrap_err();
    assert!(
        matches!(
            error,
            SchemaError::Older {
                found: 0,
                needed: 2
            }
        ),
        "{error}"
    );
    assert!(
        error.to_string().contains("outbox::migrate(&db)"),
        "{error}"
    );
    outbox::migrate(db.connection()).await.unwrap();
    outbox::check_schema(db.connection()).await.unwrap();
}

#[every_engine(empty)]
async fn a_newer_schema_is_accepted_only_if_it_says_so(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    db.execute("UPDATE outbox_schema SET number = 999").await;
    outbox::check_schema(db.connection()).await.unwrap();
    outbox::migrate(db.connection()).await.unwrap();

    db.execute("UPDATE outbox_schema SET compatible_from = 998")
        .await;
    for error in [
        outbox::check_schema(db.connection()).await.unwrap_err(),
        outbox::migrate(db.connection()).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, SchemaError::Newer { found: 999, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("from version 998 on"), "{error}");
    }
    let started = outbox::Outbox::builder(db.connection().clone())
        .start()
        .await;
    let error = started.err().unwrap().to_string();
    assert!(error.contains("from version 998 on"), "{error}");
}

/// A program from before the first release asks for the column `version`, before anything else.
#[every_engine(empty)]
async fn a_program_from_before_the_first_release_is_refused_by_the_tables(db: &TestDb) {
    outbox::migrate(db.connection()).await.unwrap();
    let asked = "SELECT version FROM outbox_schema ORDER BY version DESC LIMIT 1";
    let error = db.connection().execute_unprepared(asked).await.unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
}

/// Such tables have other ids in them, and their `outbox_schema` a column `version`.
#[every_engine(empty)]
async fn tables_from_before_the_first_release_are_refused_and_left_alone(db: &TestDb) {
    for table in [
        "CREATE TABLE outbox_schema (version INTEGER PRIMARY KEY, applied_at INTEGER)",
        "CREATE TABLE outbox_queue (id BIGINT PRIMARY KEY)",
        "INSERT INTO outbox_schema (version, applied_at) VALUES (1, 1)",
        "INSERT INTO outbox_queue (id) VALUES (7)",
    ] {
        db.execute(table).await;
    }
    let before = schema_text(db).await;
    for error in [
        outbox::check_schema(db.connection()).await.unwrap_err(),
        outbox::migrate(db.connection()).await.unwrap_err(),
    ] {
        assert!(matches!(error, SchemaError::Prerelease), "{error}");
        assert!(
            error.to_string().contains("outbox::migrations::down(&db)"),
            "{error}"
        );
    }
    let error = UserMigrator::up(db.connection(), None).await.unwrap_err();
    assert!(
        error.to_string().contains("before the first release"),
        "{error}"
    );
    assert_eq!(db.number("SELECT COUNT(*) FROM outbox_queue").await, 1);

    db.execute("DROP TABLE IF EXISTS orders").await;
    db.execute("DROP TABLE IF EXISTS seaql_migrations").await;
    assert_eq!(schema_text(db).await, before);
    outbox::migrations::down(db.connection()).await.unwrap();
    outbox::migrate(db.connection()).await.unwrap();
    outbox::check_schema(db.connection()).await.unwrap();
}

/// `migrate` is called from spawned tasks: its future must be `Send`.
#[test]
fn the_future_of_migrate_can_be_spawned() {
    fn assert_send<T: Send>(_: T) {}
    let db = sea_orm::DatabaseConnection::default();
    assert_send(outbox::migrate(&db));
}

/// Newer versions of MySQL have neither of these.
#[test]
fn no_statement_hashes_with_functions_that_mysql_gave_up() {
    fn search(directory: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                search(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap().to_ascii_uppercase();
            let gone = ["MD5(", "SHA(", "SHA1("];
            if gone.iter().any(|function| text.contains(function)) {
                found.push(path.display().to_string());
            }
        }
    }
    let mut found = Vec::new();
    for crate_directory in ["migrations", "outbox-runtime"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        search(&root.join(crate_directory).join("src"), &mut found);
    }
    assert!(found.is_empty(), "{found:?}");
}

/// The lock has the database's name in it, however long that is, and ends with the migration.
#[mysql(empty)]
async fn on_mysql_a_migration_waits_for_another_of_the_same_database(db: &TestDb) {
    // On one connection, because the session has the lock.
    let other = db.connect().await.begin().await.unwrap();
    let lock = "CONCAT('outbox.', LEFT(SHA2(DATABASE(), 256), 40))";
    let take = format!("DO GET_LOCK({lock}, 0)");
    other.execute_unprepared(&take).await.unwrap();
    let migrating = db.connect().await;
    let migration = tokio::spawn(async move { outbox::migrate(&migrating).await });
    let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
        WHERE db = DATABASE() AND state = 'User lock'";
    eventually("a wait", async || db.number(waiting).await == 1).await;
    assert!(!migration.is_finished());
    let give_back = format!("DO RELEASE_LOCK({lock})");
    other.execute_unprepared(&give_back).await.unwrap();
    migration.await.unwrap().unwrap();
    let free = format!("SELECT IS_FREE_LOCK({lock})");
    assert_eq!(db.number(&free).await, 1);
}
