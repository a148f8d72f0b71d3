//! Every statement that can be executed, for the test that prepares them.

use super::{Engine, mysql, postgres, sqlite, stepwise};
use super::{
    aging, attempts, cursor, dead_letter, enqueued, progress, read_ahead, registration, settlement,
    stats,
};
use sea_orm::{ConnectionTrait, DbErr};

/// The statements of an engine: where each is declared, and its text. Conditions and lists that are
/// made when a statement is run are as short as they can be.
pub(crate) fn statements<C: ConnectionTrait>(
    conn: &C,
) -> Result<Vec<(&'static str, String)>, DbErr> {
    let engine = Engine::of(conn)?;
    let listed = LISTS.iter().flat_map(|list| list.iter());
    let listed = listed.filter(|statement| statement.engines().contains(&engine));
    Ok(listed
        .map(|statement| {
            let text = statement.rendered(engine).repeated(1);
            let text = text.replace("{numbers}", "1").replace("{rows}", "(1,1,1)");
            (statement.name(), text.replace("{condition}", "1 = 1"))
        })
        .collect())
}

static LISTS: &[&[&super::statement::Statement]] = &[
    attempts::STATEMENTS,
    aging::STATEMENTS,
    cursor::STATEMENTS,
    dead_letter::STATEMENTS,
    dead_letter::change::STATEMENTS,
    dead_letter::requeue::STATEMENTS,
    enqueued::STATEMENTS,
    progress::STATEMENTS,
    registration::STATEMENTS,
    settlement::STATEMENTS,
    stats::STATEMENTS,
    read_ahead::STATEMENTS,
    postgres::claim::STATEMENTS,
    postgres::enqueue::STATEMENTS,
    postgres::notify::STATEMENTS,
    postgres::reconcile::STATEMENTS,
    postgres::sequence::STATEMENTS,
    postgres::vacuum::STATEMENTS,
    mysql::enqueue::STATEMENTS,
    mysql::orphan_bodies::STATEMENTS,
    mysql::by_keys::STATEMENTS,
    sqlite::enqueue::STATEMENTS,
    sqlite::by_keys::STATEMENTS,
    sqlite::setup::STATEMENTS,
    stepwise::claim::STATEMENTS,
    stepwise::enqueue::STATEMENTS,
    stepwise::orphan_bodies::STATEMENTS,
    stepwise::reconcile::STATEMENTS,
    stepwise::sequence::STATEMENTS,
    stepwise::vacuum::STATEMENTS,
    #[cfg(feature = "sabotage")]
    super::sabotage::STATEMENTS,
];
