//! Time that passes at once, for tests. The clock is the database's and cannot be moved. So all times
//! that it is compared with move the other way.

use super::cursor::micros;
use super::statement::{Run, statements, values};
use super::transaction::begin;
use sea_orm::{DatabaseConnection, DbErr};
use std::time::Duration;

statements! { EVERY;
    AGE_SCHEMA = "UPDATE outbox_schema SET applied_at = {earlier applied_at | $by_us}";
    AGE_QUEUE = "UPDATE outbox_queue SET created_at = {earlier created_at | $by_us}";
    AGE_CONSUMER = "UPDATE outbox_consumer SET created_at = {earlier created_at | $by_us}, \
            seen_at = {earlier seen_at | $by_us}";
    AGE_BODY = "UPDATE outbox_body SET enqueued_at = {earlier enqueued_at | $by_us}";
    AGE_CURSOR = "UPDATE outbox_cursor SET lease_until = {earlier lease_until | $by_us}";
    AGE_ATTEMPT = "UPDATE outbox_attempt SET first_failed_at = {earlier first_failed_at | $by_us}, \
            not_before = {earlier not_before | $by_us}";
    AGE_DEAD_LETTER = "UPDATE outbox_dead_letter SET enqueued_at = {earlier enqueued_at | $by_us}, \
            failed_at = {earlier failed_at | $by_us}, \
            deadline = {earlier deadline | $by_us}, \
            completed_at = {earlier completed_at | $by_us}";
}

/// Makes everything in the tables as old as if so much time had passed.
pub(crate) async fn age(db: &DatabaseConnection, by: Duration) -> Result<(), DbErr> {
    let tx = begin(db).await?;
    for age in STATEMENTS {
        age.execute(&tx, values! { by_us: micros(by) }).await?;
    }
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::Engine;
    use sea_orm::DbBackend;

    #[test]
    fn no_time_in_the_schema_is_forgotten() {
        let schema = outbox_migrations::sql(DbBackend::Postgres).expect("the schema");
        let mut table = "";
        let mut times = Vec::new();
        for line in schema.lines() {
            if let Some(rest) = line.strip_prefix("CREATE TABLE IF NOT EXISTS ") {
                table = rest.trim_end_matches(" (");
            }
            if let Some((column, rest)) = line.trim().split_once(' ')
                && rest.to_lowercase().starts_with("timestamptz")
            {
                times.push((table, column));
            }
        }
        let texts: Vec<&str> = STATEMENTS
            .iter()
            .map(|age| &*age.rendered(Engine::Sqlite).text)
            .collect();
        let of_text = |text: &'static str| {
            let (table, sets) = text["UPDATE ".len()..]
                .split_once(" SET ")
                .expect("an update");
            sets.split(", ")
                .map(move |set| (table, set.split(' ').next().expect("a column")))
        };
        let mut known: Vec<_> = texts.into_iter().flat_map(of_text).collect();
        times.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, times);
    }
}
