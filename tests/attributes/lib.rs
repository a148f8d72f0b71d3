//! The attributes that run a test on each database engine.
//!
//! Each stands on an `async fn name(db: &TestDb) { .. }`. Every test gets a fresh database that
//! has the outbox tables; with the argument `empty` it has none. Crates use the attributes
//! through `outbox_tests`, which the generated code refers to.

mod expand;

use expand::{EVERY_ENGINE, EVERY_SERVER, Engine, expand, expand_listed};
use proc_macro::TokenStream;

/// One test on each engine: `name::postgres`, `name::mysql` and `name::sqlite`.
#[proc_macro_attribute]
pub fn every_engine(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(EVERY_ENGINE, arguments.into(), function.into()).into()
}

/// One test on each engine that is a server, for what a file cannot show: several processes,
/// a lost connection. The tests are `name::postgres` and `name::mysql`.
#[proc_macro_attribute]
pub fn every_server(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(EVERY_SERVER, arguments.into(), function.into()).into()
}

/// One test on each of the engines listed, which have the outbox tables: `#[engines(mysql, sqlite)]`
/// makes `name::mysql` and `name::sqlite`.
#[proc_macro_attribute]
pub fn engines(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand_listed(arguments.into(), function.into()).into()
}

/// A test on PostgreSQL alone, called `name`.
#[proc_macro_attribute]
pub fn postgres(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(&[Engine::Postgres], arguments.into(), function.into()).into()
}

/// A test on MySQL alone, called `name`.
#[proc_macro_attribute]
pub fn mysql(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(&[Engine::MySql], arguments.into(), function.into()).into()
}

/// A test on SQLite alone, called `name`.
#[proc_macro_attribute]
pub fn sqlite(arguments: TokenStream, function: TokenStream) -> TokenStream {
    expand(&[Engine::Sqlite], arguments.into(), function.into()).into()
}
