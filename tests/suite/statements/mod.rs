//! Every statement that the outbox can execute, on the servers that execute it.

mod plans;
mod prepared;

use outbox_tests::{Engine, TestDb};
use sea_orm::ConnectionTrait;

/// The statements of a database's engine: where each is declared, and its text.
fn statements(db: &TestDb) -> Vec<(&'static str, String)> {
    outbox_runtime::testing::statements(db.connection()).expect("an engine that the outbox knows")
}

/// The statement whose declaration ends with `name`.
fn statement(db: &TestDb, name: &str) -> String {
    let mut found = statements(db).into_iter();
    let found = found.find(|(declared, _)| declared.ends_with(name));
    found.unwrap_or_else(|| panic!("no statement {name}")).1
}
